package io.tailbound.zookeeper.client.agent;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.instrument.Instrumentation;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.jar.JarOutputStream;

/**
 * Puts the classes that rewritten clients call into the bootstrap class loader, the only one that
 * every other is sure to ask.
 */
final class BootstrapClasses {
    private static final String PACKAGE = "io.tailbound.zookeeper.client.pace.";
    private static final String[] NAMES = {"ReconnectOptions", "ReconnectSchedule", "ClientPace"};

    private BootstrapClasses() {}

    /**
     * Appends the classes and loads them, by way of a temporary file that is gone afterwards.
     *
     * @throws IOException if the folder for temporary files cannot be written
     */
    static void append(Instrumentation instrumentation) throws IOException {
        Path file = Files.createTempFile("tailbound-", ".jar");
        try {
            write(file);
            try (JarFile jar = new JarFile(file.toFile())) {
                instrumentation.appendToBootstrapClassLoaderSearch(jar);
            }
            for (String name : NAMES) {
                Class.forName(PACKAGE + name, true, null);
            }
        } catch (ClassNotFoundException e) {
            throw new IOException("the bootstrap class loader does not find " + e.getMessage(), e);
        } finally {
            Files.deleteIfExists(file);
        }
    }

    private static void write(Path file) throws IOException {
        try (OutputStream out = Files.newOutputStream(file);
                JarOutputStream jar = new JarOutputStream(out)) {
            for (String name : NAMES) {
                String entry = (PACKAGE + name).replace('.', '/') + ".class";
                jar.putNextEntry(new JarEntry(entry));
                copy(entry, jar);
                jar.closeEntry();
            }
        }
    }

    private static void copy(String resource, OutputStream out) throws IOException {
        try (InputStream in = BootstrapClasses.class.getResourceAsStream("/" + resource)) {
            if (in == null) {
                throw new FileNotFoundException(resource + " in the agent's jar");
            }
            byte[] buffer = new byte[8192];
            for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
                out.write(buffer, 0, read);
            }
        }
    }
}
