package io.tailbound.zookeeper.harness.history;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** What all clients did, in the order in which it ended. */
final class History {
    private final List<Operation> operations = new ArrayList<>();

    synchronized void add(Operation operation) {
        operations.add(operation);
    }

    synchronized int size() {
        return operations.size();
    }

    synchronized void write(Path file) throws IOException {
        Files.write(file, operations.stream().map(Operation::toJson).toList());
    }
}
