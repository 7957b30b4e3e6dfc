package io.tailbound.zookeeper.harness.result;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** A table in plain text: the first column to the left, the others to the right. */
public final class Table {
    private static final double NS_PER_MS = 1e6;

    private final List<List<String>> rows = new ArrayList<>();

    /** A table with these headings. */
    public Table(String... headings) {
        rows.add(List.of(headings));
    }

    /** Adds a row; it has as many cells as there are headings. */
    public void add(String... cells) {
        if (cells.length != rows.get(0).size()) {
            throw new IllegalArgumentException("a row of " + cells.length + " cells");
        }
        rows.add(List.of(cells));
    }

    /** Nanoseconds as milliseconds with two digits after the point. */
    public static String ms(long ns) {
        return String.format(Locale.ROOT, "%.2f", ns / NS_PER_MS);
    }

    @Override
    public String toString() {
        int columns = rows.get(0).size();
        int[] widths = new int[columns];
        for (List<String> row : rows) {
            for (int column = 0; column < columns; column++) {
                widths[column] = Math.max(widths[column], row.get(column).length());
            }
        }
        StringBuilder text = new StringBuilder();
        for (List<String> row : rows) {
            StringBuilder line = new StringBuilder();
            for (int column = 0; column < columns; column++) {
                String sign = column == 0 ? "-" : "";
                line.append(String.format("%" + sign + widths[column] + "s  ", row.get(column)));
            }
            text.append(line.toString().stripTrailing()).append('\n');
        }
        return text.toString();
    }
}
