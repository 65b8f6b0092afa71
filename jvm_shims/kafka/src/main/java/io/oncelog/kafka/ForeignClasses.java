package io.oncelog.kafka;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.ref.WeakReference;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;

/**
 * Loads classes that were written for Kafka's client under its original name, such as a login module or a provider of
 * tokens, for the client in this jar: it renames their references to Kafka's classes when it loads them.
 *
 * <p>It also loads every class that such a class uses, so that they all see one another. The classes of the JDK, of
 * Spark, of the logging facade and of this jar are shared.
 */
final class ForeignClasses extends ClassLoader {
  private static final List<String> SHARED =
      List.of("io.oncelog.", "org.apache.spark.", "scala.", "org.slf4j.", "org.apache.logging.");

  private static final int UTF8 = 1;

  /** The sizes of a class file's constants, by tag; 0 for numbers that are not a tag. */
  private static final int[] SIZES = {0, 0, 0, 4, 4, 8, 8, 2, 2, 4, 4, 4, 4, 0, 0, 3, 2, 4, 4, 2, 2};

  private static final Map<ClassLoader, WeakReference<ForeignClasses>> LOADERS = new WeakHashMap<>();

  private ForeignClasses(ClassLoader parent) {
    super(parent);
  }

  /** The loader for the classes that {@code parent} finds. */
  static synchronized ForeignClasses seenFrom(ClassLoader parent) {
    ClassLoader from = parent == null ? ForeignClasses.class.getClassLoader() : parent;
    WeakReference<ForeignClasses> known = LOADERS.get(from);
    ForeignClasses found = known == null ? null : known.get();
    if (found == null) {
      found = new ForeignClasses(from);
      LOADERS.put(from, new WeakReference<>(found));
    }
    return found;
  }

  @Override
  protected Class<?> loadClass(String name, boolean isResolved) throws ClassNotFoundException {
    if (SHARED.stream().anyMatch(name::startsWith) || isOfJava(name)) {
      return super.loadClass(name, isResolved);
    }
    synchronized (getClassLoadingLock(name)) {
      Class<?> known = findLoadedClass(name);
      return known != null ? known : defined(name);
    }
  }

  private Class<?> defined(String name) throws ClassNotFoundException {
    try (InputStream file = getParent().getResourceAsStream(name.replace('.', '/') + ".class")) {
      if (file == null) {
        throw new ClassNotFoundException(name);
      }
      byte[] content = renamed(file.readAllBytes(), ClientSettings.ORIGINAL, ClientSettings.RELOCATED);
      return defineClass(name, content, 0, content.length);
    } catch (IOException problem) {
      throw new ClassNotFoundException(name, problem);
    }
  }

  private static boolean isOfJava(String name) {
    try {
      getPlatformClassLoader().loadClass(name);
      return true;
    } catch (ClassNotFoundException problem) {
      return false;
    }
  }

  /** A class file with {@code from} replaced by {@code to} in all names, which are texts in its constant pool. */
  static byte[] renamed(byte[] content, String from, String to) throws IOException {
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(content));
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(content.length + 1024);
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeLong(in.readLong()); // magic and version
    int count = in.readUnsignedShort();
    out.writeShort(count);
    for (int at = 1; at < count; at++) {
      int tag = in.readUnsignedByte();
      out.writeByte(tag);
      if (tag == UTF8) {
        out.writeUTF(in.readUTF().replace(from, to).replace(from.replace('.', '/'), to.replace('.', '/')));
      } else {
        out.write(in.readNBytes(SIZES[tag]));
        at += SIZES[tag] == 8 ? 1 : 0; // a long and a double count as two constants
      }
    }
    in.transferTo(out);
    return bytes.toByteArray();
  }
}
