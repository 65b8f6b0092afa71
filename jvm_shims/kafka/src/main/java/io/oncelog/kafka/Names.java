package io.oncelog.kafka;

import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.Locale;

/** Finds the name that somebody probably meant. Pure. */
public final class Names {
  private Names() {}

  /** The most similar of {@code names}, in any case; null if more than half of it would have to be changed. */
  public static String nearest(String given, Collection<String> names) {
    return names.stream()
        .min(Comparator.comparingInt(name -> changes(name, given)))
        .filter(name -> 2 * changes(name, given) <= name.length())
        .orElse(null);
  }

  /** Levenshtein's distance. */
  private static int changes(String first, String second) {
    String one = first.toLowerCase(Locale.ROOT);
    String other = second.toLowerCase(Locale.ROOT);
    int[] row = new int[other.length() + 1];
    Arrays.setAll(row, i -> i);
    for (int i = 1; i <= one.length(); i++) {
      int diagonal = row[0];
      row[0] = i;
      for (int j = 1; j <= other.length(); j++) {
        int above = row[j];
        int replaced = diagonal + (one.charAt(i - 1) == other.charAt(j - 1) ? 0 : 1);
        row[j] = Math.min(replaced, 1 + Math.min(above, row[j - 1]));
        diagonal = above;
      }
    }
    return row[other.length()];
  }
}
