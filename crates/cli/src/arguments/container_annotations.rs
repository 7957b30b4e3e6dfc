//! Arguments of `oci-hook` and `nri-plugin`, which reserve for containers as their annotations ask.

use std::path::PathBuf;

use clap::Args;

/// The bounds of what one container may ask for.
#[derive(Clone, Debug, Default, Args)]
pub struct ContainerLimitArguments {
    /// The CPUs that a container may ask for (such as `1` or `1,2`); any if left out.
    #[arg(long, value_name = "CPUS", value_delimiter = ',')]
    pub allowed_cpus: Vec<u32>,
    /// The largest budget that a container may ask for on each of its CPUs, in percent of its period; any that fits if
    /// left out. With a limit, back ends without budgets are refused.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub bandwidth_limit: Option<u64>,
    /// The highest priority that a container may ask for, and has if it asks for none.
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=90))]
    pub priority_limit: Option<u8>,
}

impl ContainerLimitArguments {
    /// The words of the command line that set these limits.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if !self.allowed_cpus.is_empty() {
            let cpus: Vec<String> = self.allowed_cpus.iter().map(u32::to_string).collect();
            words.push(format!("--allowed-cpus={}", cpus.join(",")));
        }
        let bandwidth = self.bandwidth_limit;
        words.extend(bandwidth.map(|limit| format!("--bandwidth-limit={limit}")));
        let priority = self.priority_limit;
        words.extend(priority.map(|limit| format!("--priority-limit={limit}")));
        words
    }
}

/// Arguments of `oci-hook`.
#[derive(Debug, Default, Args)]
pub struct OciHookArguments {
    /// The bounds of what one container may ask for.
    #[command(flatten)]
    pub limits: ContainerLimitArguments,
    /// Print the file for the hooks.d folder of podman and CRI-O, with the limits given, in place of being a hook. PROGRAM
    /// is the path of the installed `tailbound`; this one if left out.
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1)]
    pub print_hooks_file: Option<Option<PathBuf>>,
}

/// Arguments of `nri-plugin`.
#[derive(Debug, Args)]
pub struct NriPluginArguments {
    /// The bounds of what one container may ask for.
    #[command(flatten)]
    pub limits: ContainerLimitArguments,
    /// The socket at which the runtime takes plugins. A runtime that has started this command itself gives it a connection
    /// (`NRI_PLUGIN_SOCKET`), and the socket is not used.
    #[arg(long, value_name = "PATH", default_value = "/var/run/nri/nri.sock")]
    pub socket: PathBuf,
    /// The place among the plugins of the runtime, which asks them in the order of their indices.
    #[arg(long, value_name = "INDEX", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=99))]
    pub index: u8,
}
