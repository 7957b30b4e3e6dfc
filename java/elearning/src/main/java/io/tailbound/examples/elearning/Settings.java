package io.tailbound.examples.elearning;

import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.function.UnaryOperator;

/**
 * Settings of the application, from properties of the virtual machine.
 *
 * @param database the address of the database, with its port
 * @param passwordFile the file with the password of the database's user
 * @param connections the number of connections to the database, at most
 * @param patienceSeconds the time for which the start waits for the database
 * @param table whether every response becomes a row in the database
 */
record Settings(String database, Path passwordFile, int connections, int patienceSeconds, boolean table) {
    private static final String PREFIX = "elearning.";

    /**
     * Reads the settings.
     *
     * @param property the value of a property, or null
     * @throws IllegalArgumentException a setting is missing or wrong
     */
    static Settings read(UnaryOperator<String> property) {
        String database = text(property, "database");
        if (!database.matches(".+:[0-9]{1,5}")) {
            throw new IllegalArgumentException(
                    "property elearning.database is \"" + database + "\"; give ADDRESS:PORT, such as 127.0.0.1:13306");
        }
        return new Settings(
                database,
                Path.of(text(property, "password-file")),
                count(property, "connections", 9, 64),
                count(property, "patience", 120, 3600),
                isOn(property, "table"));
    }

    /** The port of the database. */
    InetSocketAddress port() {
        int colon = database.lastIndexOf(':');
        return new InetSocketAddress(database.substring(0, colon), Integer.parseInt(database.substring(colon + 1)));
    }

    private static String text(UnaryOperator<String> property, String name) {
        String text = property.apply(PREFIX + name);
        if (text == null || text.isBlank()) {
            throw new IllegalArgumentException("property elearning." + name + " is missing; examples/elearning/web gives it");
        }
        return text;
    }

    private static int count(UnaryOperator<String> property, String name, int otherwise, int most) {
        String text = property.apply(PREFIX + name);
        if (text == null) {
            return otherwise;
        }
        try {
            int value = Integer.parseInt(text);
            if (value >= 1 && value <= most) {
                return value;
            }
        } catch (NumberFormatException noNumber) {
            // Refused below, as a number out of range is.
        }
        throw new IllegalArgumentException(
                "property elearning." + name + " is \"" + text + "\"; give a whole number from 1 to " + most);
    }

    private static boolean isOn(UnaryOperator<String> property, String name) {
        String text = property.apply(PREFIX + name);
        if (text != null && !text.equals("on") && !text.equals("off")) {
            throw new IllegalArgumentException(
                    "property elearning." + name + " is \"" + text + "\"; give \"on\" or \"off\"");
        }
        return "on".equals(text);
    }
}
