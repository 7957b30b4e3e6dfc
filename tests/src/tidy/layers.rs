//! Which crate may depend on which: downwards only.

use super::Finding;

/// The crates, lowest first. A crate depends on crates of lower layers, never on its own layer
/// or a higher one (ARCHITECTURE.md, "Dependencies").
pub const LAYERS: [&[&str]; 12] = [
    &[
        "time",
        "application-report",
        "fourier",
        "shared-memory",
        "trigger",
        "epoch-model",
        "nri",
        "perfetto",
    ],
    &["model", "messages", "rtps"],
    &[
        "balance",
        "distribution",
        "execution-time",
        "reservation",
        "sampling",
        "topics",
        "trace",
    ],
    &["analysis", "simulator", "job-log", "lock-trace"],
    &["assessment", "linux", "manifest"],
    &["enforcement", "recorder", "ports", "pubsub", "sweep"],
    &["control", "measurement", "c-library"],
    &[
        "modes",
        "fleet",
        "report",
        "subsystem",
        "task-program",
        "top",
    ],
    &[
        "balance-manager",
        "modes-service",
        "modes-report",
        "causes-report",
        "chains-report",
    ],
    &["daemon"],
    &["experiment"],
    &["cli", "python"],
];
/// Packages that speak to the kernel; only `linux` may have them, and `trigger`, which stands alone in programs of
/// others.
const SYSTEM_PACKAGES: [&str; 4] = ["libc", "nix", "rustix", "libbpf-rs"];

/// Finds dependencies that point up, in the `Cargo.toml` of a crate. Its tests may point anywhere.
pub fn upward_dependencies(crate_name: &str, path: &str, text: &str) -> Vec<Finding> {
    let Some(own) = layer(crate_name) else {
        let message = format!("the crate \"{crate_name}\" has no place in the layers of this test");
        return vec![Finding::new(path, 1, message)];
    };
    let manifest: toml::Table = text.parse().expect("a Cargo.toml is TOML");
    let mut findings = Vec::new();
    for section in ["dependencies", "build-dependencies"] {
        let Some(dependencies) = manifest.get(section).and_then(toml::Value::as_table) else {
            continue;
        };
        for name in dependencies.keys() {
            let line = line_of(text, name);
            if SYSTEM_PACKAGES.contains(&name.as_str())
                && !["linux", "trigger"].contains(&crate_name)
            {
                let message = format!("{name}: only crates/linux speaks to the kernel");
                findings.push(Finding::new(path, line, message));
            }
            let Some(ours) = name.strip_prefix("tailbound-") else {
                continue;
            };
            if layer(ours).is_none_or(|other| other >= own) {
                let message = format!("{crate_name} depends on {ours}, which is not below it");
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    findings
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

fn line_of(text: &str, name: &str) -> usize {
    text.lines()
        .position(|line| line.starts_with(name))
        .map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_downwards_passes() {
        let text = "[dependencies]\ntailbound-time.workspace = true\nserde = \"1\"\n";
        assert_eq!(upward_dependencies("model", "Cargo.toml", text), vec![]);
    }

    #[test]
    fn dependencies_upwards_and_sideways_are_found() {
        let text = "[dependencies]\ntailbound-linux.workspace = true\n";
        let findings = upward_dependencies("analysis", "Cargo.toml", text);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 2);
        let text = "[dependencies]\ntailbound-simulator = { path = \"x\" }\n";
        assert_eq!(upward_dependencies("analysis", "Cargo.toml", text).len(), 1);
        let text = "[build-dependencies]\ntailbound-report = { path = \"x\" }\n";
        assert_eq!(upward_dependencies("time", "Cargo.toml", text).len(), 1);
    }

    #[test]
    fn the_kernel_is_reached_from_one_crate_only() {
        let text = "[dependencies]\nlibc.workspace = true\n";
        assert_eq!(upward_dependencies("linux", "Cargo.toml", text), vec![]);
        assert_eq!(upward_dependencies("daemon", "Cargo.toml", text).len(), 1);
    }

    #[test]
    fn an_unknown_crate_is_found() {
        assert_eq!(upward_dependencies("stuff", "Cargo.toml", "").len(), 1);
        let text = "[dependencies]\ntailbound-stuff.workspace = true\n";
        assert_eq!(upward_dependencies("cli", "Cargo.toml", text).len(), 1);
    }
}
