package io.oncelog.spark.blocks;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import net.jpountz.lz4.LZ4Factory;
import net.jpountz.lz4.LZ4FrameOutputStream;
import net.jpountz.lz4.LZ4FrameOutputStream.BLOCKSIZE;
import net.jpountz.lz4.LZ4FrameOutputStream.FLG.Bits;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Compares with lz4-java, which writes everything except linked blocks. */
class Lz4FrameTest {
  private static final Random RANDOM = new Random(20261124);

  static List<byte[]> contents() {
    List<byte[]> contents = new ArrayList<>();
    for (int size : new int[] {0, 1, 5, 12, 13, 17, 300, 65_535, 65_536, 65_537, 300_000}) {
      contents.add(repetitive(size, 3));
      contents.add(repetitive(size, 40));
      byte[] noise = new byte[size];
      RANDOM.nextBytes(noise);
      contents.add(noise);
    }
    return contents;
  }

  @ParameterizedTest
  @MethodSource("contents")
  void whatLz4JavaWroteIsReadWithAndWithoutChecksums(byte[] content) throws IOException {
    for (Bits[] extra : new Bits[][] {{}, {Bits.CONTENT_CHECKSUM}, {Bits.BLOCK_CHECKSUM, Bits.CONTENT_CHECKSUM}}) {
      byte[] frame = frame(content, extra);

      assertArrayEquals(content, decompressed(frame, content.length));
    }
  }

  @Test
  void aFrameThatEndsEarlyOrHoldsAnotherSizeIsRefused() throws IOException {
    byte[] content = repetitive(3_000, 20);
    byte[] frame = frame(content, Bits.CONTENT_SIZE);

    for (int size = 0; size < frame.length; size++) {
      byte[] cut = Arrays.copyOf(frame, size);
      assertThrows(IOException.class, () -> decompressed(cut, content.length));
    }
    assertThrows(IOException.class, () -> decompressed(Arrays.copyOf(frame, frame.length + 1), content.length));
    assertThrows(IOException.class, () -> decompressed(frame, content.length - 1));
    assertThrows(IOException.class, () -> decompressed(frame, content.length + 1));
  }

  @Test
  void aChangedByteOfAFrameWithChecksumsIsNeverReadAsData() throws IOException {
    byte[] content = repetitive(400, 20);
    byte[] frame = frame(content, Bits.BLOCK_CHECKSUM, Bits.CONTENT_CHECKSUM);

    for (int at = 0; at < frame.length; at++) {
      byte[] damaged = frame.clone();
      damaged[at] ^= (byte) (1 + RANDOM.nextInt(255));
      assertThrows(IOException.class, () -> decompressed(damaged, content.length), "byte " + at);
    }
  }

  @Test
  void aDamagedBlockIsReadAsLz4JavaReadsItOrRefused() {
    byte[] content = repetitive(300, 12);
    byte[] block = LZ4Factory.safeInstance().fastCompressor().compress(content);
    for (int turn = 0; turn < 20_000; turn++) {
      byte[] damaged = block.clone();
      damaged[RANDOM.nextInt(block.length)] = (byte) RANDOM.nextInt();
      byte[] ours = new byte[content.length];
      int found;
      try {
        found = Lz4Block.decompress(new Bytes(damaged, 0, damaged.length), ours, 0, 0, ours.length);
      } catch (IOException refused) {
        continue;
      }
      byte[] theirs = LZ4Factory.safeInstance().safeDecompressor().decompress(damaged, content.length);
      assertArrayEquals(theirs, Arrays.copyOf(ours, found));
    }
  }

  @Test
  void aMatchMayOverlapWhatItGivesAndReachIntoTheBlockBefore() throws IOException {
    byte[] result = {'a', 'b', 'c', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    // No literals and a match of length 7 at distance 3; then the five literals that end a block.
    byte[] block = {0x03, 3, 0, 0x50, 'v', 'w', 'x', 'y', 'z'};

    assertEquals(15, Lz4Block.decompress(new Bytes(block, 0, block.length), result, 0, 3, 15));
    assertEquals("abcabcabcavwxyz", new String(result, java.nio.charset.StandardCharsets.US_ASCII));
    assertThrows( // an independent block must not refer to anything before its own start
        IOException.class, () -> Lz4Block.decompress(new Bytes(block, 0, block.length), result, 3, 3, 15));
  }

  private static byte[] decompressed(byte[] frame, int size) throws IOException {
    byte[] result = new byte[size];
    return Arrays.copyOf(result, Lz4Frame.decompress(new Bytes(frame, 0, frame.length), result, size));
  }

  private static byte[] frame(byte[] content, Bits... extra) throws IOException {
    List<Bits> bits = new ArrayList<>(List.of(Bits.BLOCK_INDEPENDENCE));
    bits.addAll(List.of(extra));
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    long knownSize = bits.contains(Bits.CONTENT_SIZE) ? content.length : -1;
    try (LZ4FrameOutputStream out =
        new LZ4FrameOutputStream(bytes, BLOCKSIZE.SIZE_64KB, knownSize, bits.toArray(new Bits[0]))) {
      out.write(content);
    }
    return bytes.toByteArray();
  }

  /** Bytes that repeat at many distances. */
  private static byte[] repetitive(int size, int letters) {
    byte[] bytes = new byte[size];
    for (int at = 0; at < size; at++) {
      bytes[at] = at > 8 && RANDOM.nextInt(4) > 0 ? bytes[at - 1 - RANDOM.nextInt(8)] : (byte) RANDOM.nextInt(letters);
    }
    return bytes;
  }
}
