package io.oncelog.kafka.control;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import io.oncelog.kafka.ClientSettings;
import io.oncelog.kafka.Clients;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * The process that Python sends requests to. The settings come in its first line and not as arguments, because they
 * contain passwords, and a command line is visible to everybody.
 *
 * <p>It ends when its input ends, whatever it is waiting for. It also ends when its parent ends, because a fork of the
 * parent may keep the input open.
 */
public final class Main {
  private static final JsonMapper JSON = new JsonMapper();

  private Main() {}

  /** Serves the process whose id is the only argument. */
  public static void main(String[] arguments) throws IOException {
    PrintStream answers = System.out;
    System.setOut(System.err); // keeps console logging out of the answers
    long parent = Long.parseLong(arguments[0]);
    ProcessHandle.of(parent).ifPresentOrElse(one -> one.onExit().thenRun(Main::halt), Main::halt);
    ExecutorService worker = Executors.newSingleThreadExecutor();
    Session session = new Session();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String asked = line;
      worker.submit(() -> say(answers, session.answer(asked)));
    }
    halt();
  }

  private static void say(PrintStream answers, byte[] line) {
    answers.write(line, 0, line.length);
    answers.write('\n');
    answers.flush();
  }

  private static void halt() {
    Runtime.getRuntime().halt(0);
  }

  /** Opens the connection with the first line, and answers the others. */
  private static final class Session {
    private Requests requests;

    byte[] answer(String line) {
      try {
        return JSON.writeValueAsBytes(outcome(line));
      } catch (IOException problem) {
        throw new java.io.UncheckedIOException(problem);
      }
    }

    private Map<String, Object> outcome(String line) throws IOException {
      boolean isOpening = requests == null;
      try {
        JsonNode request = JSON.readTree(line);
        return Map.of("answer", isOpening ? open(request) : requests.answer(request));
      } catch (RuntimeException | LinkageError problem) {
        Failure failure = Failure.of(problem, isOpening);
        return Map.of("failure", failure.kind(), "problem", failure.problem());
      }
    }

    private Object open(JsonNode request) {
      Map<String, String> settings = new TreeMap<>();
      request
          .get("settings")
          .fields()
          .forEachRemaining(one -> settings.put(one.getKey(), ClientSettings.relocated(one.getValue().asText())));
      requests = Clients.create(
              settings, completed -> new Requests(new Wire(completed, request.get("connectTimeoutMs").asInt())));
      return true;
    }
  }
}
