package io.tailbound.zookeeper.client.agent;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * Replaces single calls in class files of a ZooKeeper client, all or none. No field, method or
 * branch is added or removed, so that the rest of the class stays as its compiler left it.
 */
final class ClientRewriting {
    private ClientRewriting() {}

    /** A class file, with the calls that it should have had and did not. */
    static final class Result {
        private final byte[] classFile;
        private final List<String> missing;

        Result(byte[] classFile, List<String> missing) {
            this.classFile = classFile;
            this.missing = Collections.unmodifiableList(missing);
        }

        /** The rewritten class; of use only if nothing is {@link #missing}. */
        byte[] classFile() {
            return classFile;
        }

        /** The calls that were not found exactly once, in words. */
        List<String> missing() {
            return missing;
        }
    }

    /** Rewrites {@code ClientCnxn.SendThread}: its pace is kept by {@code ClientPace}. */
    static Result sendThread(byte[] classFile) {
        return rewrite(classFile, CallReplacement.IN_SEND_THREAD);
    }

    /** Rewrites {@code ClientCnxnSocketNIO}: it does not sleep after it has closed a connection. */
    static Result nioSocket(byte[] classFile) {
        return rewrite(classFile, CallReplacement.IN_NIO_SOCKET);
    }

    private static Result rewrite(byte[] classFile, List<CallReplacement> replacements) {
        ClassReader reader = new ClassReader(classFile);
        // Frames stay valid without being computed anew, since there is no new branch.
        ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
        Map<CallReplacement, Integer> found = new TreeMap<>();
        replacements.forEach(replacement -> found.put(replacement, 0));
        reader.accept(new Replacing(writer, found), 0);
        List<String> missing = new ArrayList<>();
        found.forEach((replacement, count) -> {
            if (count != 1) {
                missing.add("single " + replacement);
            }
        });
        return new Result(writer.toByteArray(), missing);
    }

    private static final class Replacing extends ClassVisitor {
        private final Map<CallReplacement, Integer> found;

        Replacing(ClassVisitor next, Map<CallReplacement, Integer> found) {
            super(Opcodes.ASM9, next);
            this.found = found;
        }

        @Override
        public MethodVisitor visitMethod(
                int access, String method, String descriptor, String signature, String[] exceptions) {
            MethodVisitor next = super.visitMethod(access, method, descriptor, signature, exceptions);
            return new MethodVisitor(Opcodes.ASM9, next) {
                @Override
                public void visitMethodInsn(
                        int opcode, String owner, String name, String called, boolean isInterface) {
                    for (CallReplacement replacement : found.keySet()) {
                        if (replacement.matches(method, owner, name, called)) {
                            found.merge(replacement, 1, Integer::sum);
                            replacement.write(mv);
                            return;
                        }
                    }
                    super.visitMethodInsn(opcode, owner, name, called, isInterface);
                }
            };
        }
    }
}
