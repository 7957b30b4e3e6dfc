package io.tailbound.zookeeper.upstream;

import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * Java agent that makes upstream's tests, and upstream's main class, create our peer wherever they
 * create the stock one. Nothing else of them changes.
 */
public final class PeerRewriter implements ClassFileTransformer {

  private static final String STOCK = "org/apache/zookeeper/server/quorum/QuorumPeer";
  private static final String OURS = "org/apache/zookeeper/server/quorum/TailboundPeer";
  private static final String PACKAGE = "org/apache/zookeeper/";

  private PeerRewriter() {}

  /** Called by the JVM. */
  public static void premain(String arguments, Instrumentation instrumentation) {
    instrumentation.addTransformer(new PeerRewriter());
  }

  @Override
  public byte[] transform(ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] bytes) {
    if (name == null || !name.startsWith(PACKAGE) || name.startsWith(OURS) || name.equals(STOCK)) {
      return null;
    }
    ClassReader reader = new ClassReader(bytes);
    if (STOCK.equals(reader.getSuperName())) {
      // A test's own kind of peer: it must go on calling the constructor of its superclass.
      return null;
    }
    ClassWriter writer = new ClassWriter(reader, 0);
    reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
      @Override
      public MethodVisitor visitMethod(int access, String method, String type, String signature, String[] thrown) {
        return new Creations(super.visitMethod(access, method, type, signature, thrown));
      }
    }, 0);
    return writer.toByteArray();
  }

  /** Replaces {@code new QuorumPeer(...)}. */
  private static final class Creations extends MethodVisitor {

    Creations(MethodVisitor next) {
      super(Opcodes.ASM9, next);
    }

    @Override
    public void visitTypeInsn(int opcode, String type) {
      super.visitTypeInsn(opcode, opcode == Opcodes.NEW && type.equals(STOCK) ? OURS : type);
    }

    @Override
    public void visitMethodInsn(int opcode, String owner, String name, String type, boolean isInterface) {
      boolean creates = opcode == Opcodes.INVOKESPECIAL && owner.equals(STOCK) && name.equals("<init>");
      super.visitMethodInsn(opcode, creates ? OURS : owner, name, type, isInterface);
    }
  }
}
