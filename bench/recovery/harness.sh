# Sourced by the benches beside it: builds what they run, into target folders, once.
# TAILBOUND_LAUNCHER names a java/bin/tailbound-zookeeper of another build.
# Sets: classes (class path), work (folder for what is built), and the function skip.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
work=$repository/java/harness/target

say() { printf '%s: %s\n' "$bench" "$*" >&2; }

skip() { # what, why
    printf '\nSKIP %s: %s\n\n' "$1" "$2" >&2
}

need() { # command, Debian's package
    command -v "$1" >/dev/null 2>&1 && return
    skip "$bench" "needs $1 (on Debian: apt-get install $2)"
    exit 0
}

need java openjdk-17-jdk-headless
need mvn maven
need setpriv util-linux
need chrt util-linux

jar=$work/tailbound-zookeeper-harness-0.1.0.jar
if [ ! -e "$jar" ] || [ ! -d "$work/lib" ] \
    || [ -n "$(find "$repository/java/harness/src/main" "$repository/java/harness/pom.xml" -newer "$jar" -print -quit)" ]; then
    say "building java/harness"
    rm -rf "$work/lib"
    mvn -q -f "$repository/java/pom.xml" -pl harness package -DskipTests >&2
fi
classes=$jar:$(printf '%s:' "$work"/lib/*.jar)
classes=${classes%:}
# `driver_priority`, if set, is a command that gives the driver, but none of its servers, another priority.
run_java() { # main class below io.tailbound.zookeeper.harness, arguments
    local main=$1
    shift
    # With the script dies the driver, and with the driver its servers.
    setpriv --pdeathsig KILL -- ${driver_priority:-} java -Xmx512m -XX:+UseSerialGC -cp "$classes" \
        -Dlogback.configurationFile=driver-logback.xml \
        -Dtailbound.launcher="${TAILBOUND_LAUNCHER:-$repository/java/bin/tailbound-zookeeper}" \
        -Dtailbound.syncdelay="$work/sync_delay.so" \
        -Dtailbound.tools="$work" \
        -Dtailbound.checker="$work/checker" \
        "io.tailbound.zookeeper.harness.$main" "$@"
}
