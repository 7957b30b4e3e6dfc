package io.tailbound.examples.elearning;

/** A parameter of a request that the application refuses; the message says which, why, and what would be right. */
final class BadParameter extends Exception {
    BadParameter(String message) {
        super(message);
    }
}
