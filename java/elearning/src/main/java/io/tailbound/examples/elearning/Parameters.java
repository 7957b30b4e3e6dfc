package io.tailbound.examples.elearning;

import java.util.List;
import java.util.Map;
import java.util.TreeSet;

/** The parameters of a request, each of which is read once, in its range. */
final class Parameters {
    private static final int LONGEST_SHOWN = 40;

    private final Map<String, String[]> values;

    /**
     * Takes the parameters of a request.
     *
     * @throws BadParameter a parameter has another name than these, or comes twice
     */
    Parameters(Map<String, String[]> values, List<String> names) throws BadParameter {
        for (String name : new TreeSet<>(values.keySet())) {
            if (!names.contains(name)) {
                String choice = names.isEmpty() ? "give none" : "give " + String.join(", ", names);
                throw new BadParameter("there is no parameter " + shown(name) + "; " + choice);
            }
            if (values.get(name).length != 1) {
                throw new BadParameter("parameter " + name + " comes " + values.get(name).length
                        + " times; give it once");
            }
        }
        this.values = values;
    }

    /** A decimal number that must be there. */
    double decimal(String name, double least, double most) throws BadParameter {
        String range = "a number from " + plain(least) + " to " + plain(most) + ", such as " + name + "="
                + plain((least + most) / 2);
        String text = text(name);
        if (text == null) {
            throw new BadParameter("parameter " + name + " is missing; give " + range);
        }
        try {
            double value = Double.parseDouble(text);
            // NaN is in no range.
            if (value >= least && value <= most) {
                return value;
            }
        } catch (NumberFormatException noNumber) {
            // Refused below, as a number out of range is.
        }
        throw new BadParameter("parameter " + name + " is " + shown(text) + "; give " + range);
    }

    /** A decimal number, or the given one if it is left out. */
    double decimal(String name, double least, double most, double otherwise) throws BadParameter {
        return text(name) == null ? otherwise : decimal(name, least, most);
    }

    /** A whole number that must be there. */
    long whole(String name, long least, long most) throws BadParameter {
        String range = "a whole number from " + least + " to " + most;
        String text = text(name);
        if (text == null) {
            throw new BadParameter("parameter " + name + " is missing; give " + range);
        }
        try {
            long value = Long.parseLong(text);
            if (value >= least && value <= most) {
                return value;
            }
        } catch (NumberFormatException noNumber) {
            // Refused below, as a number out of range is.
        }
        throw new BadParameter("parameter " + name + " is " + shown(text) + "; give " + range);
    }

    /** A whole number, or the given one if it is left out. */
    long whole(String name, long least, long most, long otherwise) throws BadParameter {
        return text(name) == null ? otherwise : whole(name, least, most);
    }

    /** One of several words, of which the first stands for a parameter that is left out. */
    String word(String name, List<String> words) throws BadParameter {
        String text = text(name);
        if (text == null) {
            return words.get(0);
        }
        if (!words.contains(text)) {
            throw new BadParameter("parameter " + name + " is " + shown(text) + "; give " + String.join(", ", words));
        }
        return text;
    }

    private String text(String name) {
        String[] all = values.get(name);
        return all == null ? null : all[0];
    }

    private static String plain(double number) {
        return number == Math.rint(number) ? Long.toString((long) number) : Double.toString(number);
    }

    /** A text of a client, in quotes and cut, so that an answer stays short. */
    private static String shown(String text) {
        String cut = text.length() > LONGEST_SHOWN ? text.substring(0, LONGEST_SHOWN) + "..." : text;
        return "\"" + cut + "\"";
    }
}
