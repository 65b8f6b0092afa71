package io.oncelog.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CheckpointTest {
  private static final String OFFSETS = "{\"a-topic-of-a-name-with-some-letters\":{\"2\":2,\"1\":1,\"0\":0}}";

  @TempDir Path folder;
  private Checkpoint checkpoint;

  @BeforeEach
  void open() {
    checkpoint = new Checkpoint(folder.toUri().toString(), new Configuration());
  }

  @Test
  void initialOffsetsAreWrittenAsSparksSourceWritesThem() throws Exception {
    assertEquals(Optional.empty(), checkpoint.initialOffsets());
    checkpoint.writeInitialOffsets(Json.parseOffset("{\"t\":{\"0\":7}}"));

    assertEquals("\0v1\n{\"t\":{\"0\":7}}", Files.readString(folder.resolve("0")));
    assertEquals(Optional.of(Json.parseOffset("{\"t\":{\"0\":7}}")), checkpoint.initialOffsets());
  }

  /** Spark 2.1.0 wrote no version, and the last byte of the length, which may be any character. */
  @ParameterizedTest
  @ValueSource(ints = {0, '2', 'v', '\n', '{', 0x80, 0xC8, 0xFF})
  void initialOffsetsOfSpark210BeginWithAByteOfTheirLength(int length) throws Exception {
    write(length, OFFSETS + "\n");

    assertEquals(Optional.of(Json.parseOffset(OFFSETS)), checkpoint.initialOffsets());
  }

  @Test
  void initialOffsetsOfALaterVersionAreRefused() throws Exception {
    write(0, "v2\n" + OFFSETS);

    String message = assertThrows(IllegalStateException.class, checkpoint::initialOffsets).getMessage();
    assertTrue(message.contains("version=v2, known=v1"), message);
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "v1", "v1\n", "v1\n{", "{", "\0v1\n{\"t\":{\"0\":7}}"})
  void initialOffsetsThatAreCutOffAreRefusedWithTheirFile(String rest) throws Exception {
    write(0, rest);

    String message = assertThrows(IllegalStateException.class, checkpoint::initialOffsets).getMessage();
    assertTrue(message.contains("file=file:" + folder.resolve("0")), message);
  }

  @Test
  void topicIdsAreAddedInFilesOfTheirOwn() {
    assertEquals(new TreeMap<>(), checkpoint.topicIds());
    checkpoint.addTopicIds(Json.parseTexts("{\"a\":\"one\"}"));
    checkpoint.addTopicIds(Json.parseTexts("{\"b\":\"two\"}"));

    Checkpoint later = new Checkpoint(folder.toUri().toString(), new Configuration());
    assertEquals(Json.parseTexts("{\"a\":\"one\",\"b\":\"two\"}"), later.topicIds());
  }

  private void write(int first, String rest) throws Exception {
    byte[] text = rest.getBytes(StandardCharsets.UTF_8);
    byte[] bytes = new byte[text.length + 1];
    bytes[0] = (byte) first;
    System.arraycopy(text, 0, bytes, 1, text.length);
    Files.write(folder.resolve("0"), bytes);
  }
}
