package io.tailbound.examples.elearning;

/** The requests whose response times the application reports. */
enum RequestKind {
    POSITION("position"),
    CONTENT("content");

    private final String label;

    RequestKind(String label) {
        this.label = label;
    }

    /** The name in reports and in the table. */
    String label() {
        return label;
    }

    /** The kind of a servlet's path. */
    static RequestKind ofPath(String path) {
        return path.equals("/content") ? CONTENT : POSITION;
    }
}
