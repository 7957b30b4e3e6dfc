//! Arguments of `oci-hook`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `oci-hook`.
#[derive(Debug, Default, Args)]
pub struct OciHookArguments {
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
    /// Print the file for the hooks.d folder of podman and CRI-O, with the limits given, in place of being a hook. PROGRAM
    /// is the path of the installed `tailbound`; this one if left out.
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1)]
    pub print_hooks_file: Option<Option<PathBuf>>,
}
