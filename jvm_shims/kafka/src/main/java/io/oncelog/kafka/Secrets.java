package io.oncelog.kafka;

import java.util.regex.Pattern;

/** Hides secrets in messages, by the same rule as Python's {@code oncelog.secrecy}: by where they stand. Pure. */
public final class Secrets {
  private static final String HIDDEN = "***";

  private static final Pattern OF_USER =
      Pattern.compile("(?<![\\w.%+~-])([\\w.%+~-]++):(?!//)[^\\s'\"]{0,200}@");

  private static final Pattern LOGIN =
      Pattern.compile("(jaas[\\w.]{0,80}['\"]?\\s{0,8}[=:]\\s{0,8})[^;]*+;?", Pattern.CASE_INSENSITIVE);

  private static final Pattern ASSIGNED =
      Pattern.compile(
          "(?<![\\w.-])([\\w.-]{0,80}?(?:pass(?:word|phrase)|secret|(?:api|access|private|keystore)[._-]?key)"
              + "[\\w.-]{0,80}\\s{0,8}[=:]\\s{0,8})"
              + "('(?:[^'\\\\]++|\\\\.)*+'|\"(?:[^\"\\\\]++|\\\\.)*+\"|[^\\s&;,)\\]}'\"]++)",
          Pattern.CASE_INSENSITIVE);

  private Secrets() {}

  /** The text without the secrets in it. */
  public static String hidden(String text) {
    String without = LOGIN.matcher(text).replaceAll("$1" + HIDDEN);
    without = OF_USER.matcher(without).replaceAll("$1:" + HIDDEN + "@");
    return ASSIGNED.matcher(without).replaceAll("$1" + HIDDEN);
  }
}
