package io.oncelog.conformance;

import org.scalatest.Suite;
import scala.jdk.javaapi.CollectionConverters;

/** Prints the tests of the ScalaTest suites that the arguments name, each as the suite, a tab and the test. */
public final class TestNames {
  private TestNames() {}

  public static void main(String[] suites) throws ReflectiveOperationException {
    for (String name : suites) {
      Suite suite = (Suite) Class.forName(name).getConstructor().newInstance();
      CollectionConverters.asJava(suite.testNames()).forEach(test -> System.out.println(name + "\t" + test));
    }
    System.exit(0); // some suites start threads in their constructors
  }
}
