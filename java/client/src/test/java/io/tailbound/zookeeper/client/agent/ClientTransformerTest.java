package io.tailbound.zookeeper.client.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tailbound.zookeeper.client.pace.ReconnectOptions;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.apache.zookeeper.ZooKeeper;
import org.junit.jupiter.api.Test;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

class ClientTransformerTest {
    private static final ClassLoader OURS = ClientTransformerTest.class.getClassLoader();

    private final ByteArrayOutputStream told = new ByteArrayOutputStream();
    private final ClientTransformer transformer = new ClientTransformer(
            ReconnectOptions.DEFAULT, new Report(new PrintStream(told, true, StandardCharsets.UTF_8)));

    private static byte[] classFile(String name) throws IOException {
        try (InputStream in = ZooKeeper.class.getResourceAsStream("/" + name + ".class")) {
            return in.readAllBytes();
        }
    }

    private String told() {
        return told.toString(StandardCharsets.UTF_8);
    }

    /** The class file without one of its methods, as a version to come might be. */
    private static byte[] without(String method, byte[] classFile) {
        ClassWriter writer = new ClassWriter(0);
        new ClassReader(classFile).accept(new ClassVisitor(Opcodes.ASM9, writer) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] e) {
                return name.equals(method) ? null : super.visitMethod(access, name, descriptor, signature, e);
            }
        }, 0);
        return writer.toByteArray();
    }

    @Test
    void aKnownClientIsRewrittenAndSaidOnce() throws IOException {
        byte[] sendThread = classFile(ClientTransformer.SEND_THREAD);
        assertNotNull(transformer.transform(OURS, ClientTransformer.SEND_THREAD, null, null, sendThread));
        assertNotNull(transformer.transform(OURS, ClientTransformer.SEND_THREAD, null, null, sendThread));
        assertNotNull(transformer.transform(
                OURS, ClientTransformer.NIO_SOCKET, null, null, classFile(ClientTransformer.NIO_SOCKET)));
        assertEquals(1, told().lines().count(), told());
        assertTrue(told().contains("reconnects promptly (retry=50ms,jitter=0.5"), told());
    }

    @Test
    void anUnknownClientIsLeftAsItIs() throws IOException {
        byte[] other = without("startConnect", classFile(ClientTransformer.SEND_THREAD));
        assertNull(transformer.transform(OURS, ClientTransformer.SEND_THREAD, null, null, other));
        assertTrue(told().contains("no single Thread.sleep in startConnect"), told());
        assertTrue(told().contains("left as it is"), told());
        byte[] socket = without("cleanup", classFile(ClientTransformer.NIO_SOCKET));
        assertNull(transformer.transform(OURS, ClientTransformer.NIO_SOCKET, null, null, socket));
        assertTrue(told().contains("no wait to replace in ClientCnxnSocketNIO.cleanup"), told());
    }

    @Test
    void aClientThatDoesNotReachTheAgentsClassesIsLeftAsItIs() throws IOException {
        byte[] sendThread = classFile(ClientTransformer.SEND_THREAD);
        ClassLoader apart = ClassLoader.getPlatformClassLoader();
        assertNull(transformer.transform(apart, ClientTransformer.SEND_THREAD, null, null, sendThread));
        assertTrue(told().contains("does not find the agent's classes"), told());
    }

    @Test
    void otherClassesAreNotEvenRead() {
        assertNull(transformer.transform(OURS, "org/example/Main", null, null, new byte[] {1}));
        assertEquals("", told());
    }

    /** Damaged class files are the virtual machine's to refuse; the transformer must not throw. */
    @Test
    void damagedClassFilesAreLeftAsTheyAre() throws IOException {
        byte[] whole = classFile(ClientTransformer.SEND_THREAD);
        Random random = new Random(9);
        for (int i = 0; i < 2000; i++) {
            byte[] damaged = java.util.Arrays.copyOf(whole, i % 4 == 0 ? random.nextInt(whole.length) : whole.length);
            for (int k = 0; k < 8 && damaged.length > 0; k++) {
                damaged[random.nextInt(damaged.length)] = (byte) random.nextInt();
            }
            transformer.transform(OURS, ClientTransformer.SEND_THREAD, null, null, damaged);
        }
    }
}
