package io.tailbound.zookeeper.client.agent;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** A call in a ZooKeeper client, and what is put in its place. */
enum CallReplacement {
    /** {@code hostProvider.next(1000)}: wait as our pace says, then {@code hostProvider.next(1)}. */
    NEXT_SERVER("run", Names.HOST_PROVIDER, "next", "(J)Ljava/net/InetSocketAddress;") {
        @Override
        void write(MethodVisitor code) {
            // The stack holds the provider and the long 1000.
            code.visitInsn(Opcodes.POP2);
            code.visitInsn(Opcodes.DUP);
            code.visitInsn(Opcodes.DUP);
            code.visitMethodInsn(Opcodes.INVOKEINTERFACE, Names.HOST_PROVIDER, "size", "()I", true);
            code.visitMethodInsn(
                    Opcodes.INVOKESTATIC, Names.PACE, "beforeAttempt", "(Ljava/lang/Object;I)V", false);
            // Not 0, which tells a provider that its answer is not for an attempt.
            code.visitInsn(Opcodes.LCONST_1);
            code.visitMethodInsn(
                    Opcodes.INVOKEINTERFACE, Names.HOST_PROVIDER, "next", "(J)Ljava/net/InetSocketAddress;", true);
        }
    },

    /** {@code Thread.sleep(random below 1000)} before a reconnection: gone. */
    WAIT_BEFORE_CONNECT("startConnect", Names.THREAD, "sleep", "(J)V") {
        @Override
        void write(MethodVisitor code) {
            // A call that may throw what the handler around it catches, as the sleep may.
            code.visitMethodInsn(Opcodes.INVOKESTATIC, Names.PACE, "beforeConnect", "(J)V", false);
        }
    },

    /** {@code hostProvider.onConnected()}: tell the pace too. */
    SESSION_ESTABLISHED("onConnected", Names.HOST_PROVIDER, "onConnected", "()V") {
        @Override
        void write(MethodVisitor code) {
            code.visitMethodInsn(Opcodes.INVOKEINTERFACE, Names.HOST_PROVIDER, "onConnected", "()V", true);
            code.visitVarInsn(Opcodes.ALOAD, 0);
            code.visitMethodInsn(Opcodes.INVOKESTATIC, Names.PACE, "connected", "(Ljava/lang/Object;)V", false);
        }
    },

    /** {@code Thread.sleep(100)} after a connection was closed: none for clients with our pace. */
    WAIT_AFTER_CLOSE("cleanup", Names.THREAD, "sleep", "(J)V") {
        @Override
        void write(MethodVisitor code) {
            code.visitMethodInsn(Opcodes.INVOKESTATIC, Names.PACE, "afterClose", "(J)V", false);
        }
    };

    /** What is replaced in {@code ClientCnxn.SendThread}. */
    static final List<CallReplacement> IN_SEND_THREAD = Collections.unmodifiableList(
            Arrays.asList(NEXT_SERVER, WAIT_BEFORE_CONNECT, SESSION_ESTABLISHED));

    /** What is replaced in {@code ClientCnxnSocketNIO}. */
    static final List<CallReplacement> IN_NIO_SOCKET = Collections.singletonList(WAIT_AFTER_CLOSE);

    private static final class Names {
        static final String HOST_PROVIDER = "org/apache/zookeeper/client/HostProvider";
        static final String THREAD = "java/lang/Thread";
        static final String PACE = "io/tailbound/zookeeper/client/pace/ClientPace";
    }

    private final String method;
    private final String owner;
    private final String name;
    private final String descriptor;

    CallReplacement(String method, String owner, String name, String descriptor) {
        this.method = method;
        this.owner = owner;
        this.name = name;
        this.descriptor = descriptor;
    }

    /** Whether a call in a method is the one to replace. */
    boolean matches(String inMethod, String calledOwner, String calledName, String calledDescriptor) {
        return method.equals(inMethod)
                && owner.equals(calledOwner)
                && name.equals(calledName)
                && descriptor.equals(calledDescriptor);
    }

    /** Writes what takes the call's place, for the same operands on the stack. */
    abstract void write(MethodVisitor code);

    /** The call in words. */
    @Override
    public String toString() {
        return owner.substring(owner.lastIndexOf('/') + 1) + "." + name + " in " + method;
    }
}
