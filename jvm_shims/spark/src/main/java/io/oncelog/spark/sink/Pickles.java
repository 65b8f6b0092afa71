package io.oncelog.spark.sink;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import net.razorvine.pickle.Opcodes;
import net.razorvine.pickle.PickleException;
import net.razorvine.pickle.Unpickler;

/** Texts within pickles: Spark passes pickled objects of one Python process to this jar, and to another process. */
final class Pickles {
  private static final String MODULE = "oncelog.spark.writer";

  static {
    // A pickled writer is a call of this Python function, with a text and other things.
    Unpickler.registerConstructor(MODULE, "revived", arguments -> arguments[0]);
  }

  private Pickles() {}

  /** The text in a pickled writer. */
  static String text(byte[] writer) {
    try {
      return (String) new Unpickler().loads(writer);
    } catch (IOException | PickleException | ClassCastException problem) {
      throw Json.otherVersion(problem);
    }
  }

  /** A pickled call of a function of writer.py. */
  static byte[] call(String function, String argument) {
    byte[] text = argument.getBytes(StandardCharsets.UTF_8);
    ByteArrayOutputStream pickle = new ByteArrayOutputStream(text.length + 100);
    pickle.write(Opcodes.PROTO);
    pickle.write(2);
    pickle.write(Opcodes.GLOBAL);
    pickle.writeBytes((MODULE + "\n" + function + "\n").getBytes(StandardCharsets.US_ASCII));
    pickle.write(Opcodes.BINUNICODE);
    pickle.writeBytes(ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(text.length).array());
    pickle.writeBytes(text);
    pickle.write(Opcodes.TUPLE1);
    pickle.write(Opcodes.REDUCE);
    pickle.write(Opcodes.STOP);
    return pickle.toByteArray();
  }
}
