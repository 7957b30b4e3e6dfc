//! Interrupt lines of the host, and the threads of the kernel that do the work of interrupts.
//!
//! A network device has interrupt lines below its bus device, receive queues, and with threaded NAPI (Linux 5.12) a
//! thread `napi/DEVICE-N` for each of its NAPI instances. An interrupt with a threaded handler has a thread
//! `irq/NUMBER-NAME`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

const NET: &str = "/sys/class/net";
const LINES: &str = "/proc/irq";

/// The file of a network device that switches threaded NAPI.
const THREADED: &str = "threaded";

/// The parts of the kernel that work for one device or interrupt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterruptParts {
    /// The files of the affinities of its interrupt lines.
    pub affinities: Vec<PathBuf>,
    /// The file that moves the receive work of a network device between softirqs and threads.
    pub threaded: Option<PathBuf>,
    /// The files that send received packets of a device without interrupt lines to CPUs.
    pub steering: Vec<PathBuf>,
    /// The kernel's threads that work for it now.
    pub threads: Vec<u32>,
}

impl InterruptParts {
    /// Those of the network device of this name, or of the interrupt of this number or name.
    ///
    /// # Errors
    /// `NotFound`, naming the devices there are, if neither has this name; or what the kernel says.
    pub fn of(name: &str) -> io::Result<Self> {
        let device = Path::new(NET).join(name);
        match is_plain(name) && device.is_dir() {
            true => Self::of_device(&device, name),
            false => Self::of_interrupt(name),
        }
    }

    fn of_device(device: &Path, name: &str) -> io::Result<Self> {
        let lines = lines_of_device(device);
        let threaded = device.join(THREADED);
        let mut threads = threads_named(|thread| is_of_device(thread, name))?;
        threads.extend(threads_of_lines(&lines)?);
        Ok(Self {
            threaded: threaded.exists().then_some(threaded),
            steering: match lines.is_empty() {
                true => receive_queues(device)?,
                false => Vec::new(),
            },
            affinities: affinities(&lines),
            threads,
        })
    }

    fn of_interrupt(name: &str) -> io::Result<Self> {
        let text = fs::read_to_string("/proc/interrupts")?;
        let lines = lines_named(&text, name);
        if lines.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!(
                    "no network device and no interrupt is called \"{name}\"; the devices are {}",
                    devices()
                ),
            ));
        }
        Ok(Self {
            affinities: affinities(&lines),
            threads: threads_of_lines(&lines)?,
            ..Self::default()
        })
    }
}

/// Whether network devices can be moved to receive threads, and what the kernel does with other interrupts.
///
/// # Errors
/// Why not, in words.
pub fn receive_threads() -> Result<String, String> {
    let file = Path::new(NET).join("lo").join(THREADED);
    // Opened for writing, and not written: that would change the device.
    let opened = fs::OpenOptions::new().write(true).open(&file);
    opened.map_err(|error| format!("{}: {error}", file.display()))?;
    let words = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    Ok(match words.split_whitespace().any(|word| word == "threadirqs") {
        true => "network devices by `threaded`, and all interrupts (threadirqs)".into(),
        false => "network devices by `threaded`; of other interrupts those whose drivers ask for it (no threadirqs)".into(),
    })
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && name != "." && name != ".."
}

fn devices() -> String {
    let listed = fs::read_dir(NET).map(|entries| {
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.collect::<BTreeSet<String>>()
    });
    let names: Vec<String> = listed.unwrap_or_default().into_iter().collect();
    names.join(", ")
}

/// The interrupt lines of a network device: those of its bus device, or of the device above it, as virtio has it.
fn lines_of_device(device: &Path) -> BTreeSet<u32> {
    let places = ["device/msi_irqs", "device/../msi_irqs"];
    let listed = places
        .iter()
        .filter_map(|place| fs::read_dir(device.join(place)).ok());
    let numbers = listed.flatten().filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.parse().ok()
    });
    numbers.collect()
}

fn affinities(lines: &BTreeSet<u32>) -> Vec<PathBuf> {
    let files = lines.iter().map(|line| {
        Path::new(LINES)
            .join(line.to_string())
            .join("smp_affinity_list")
    });
    files.filter(|file| file.exists()).collect()
}

fn receive_queues(device: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(device.join("queues"))? {
        let file = entry?.path().join("rps_cpus");
        if file.exists() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// The numbers of the interrupts of a name, or the one of a number, in the text of /proc/interrupts.
fn lines_named(text: &str, name: &str) -> BTreeSet<u32> {
    let lines = text.lines().filter_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let number: u32 = number.trim().parse().ok()?;
        let is_named = || rest.split([' ', ',']).any(|word| word == name);
        (name.parse() == Ok(number) || is_named()).then_some(number)
    });
    lines.collect()
}

/// Whether a thread is the one of a NAPI instance of the device. The kernel cuts names after 15 bytes.
fn is_of_device(thread: &str, device: &str) -> bool {
    let Some(rest) = thread.strip_prefix("napi/") else {
        return false;
    };
    match rest.rsplit_once('-') {
        Some((name, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name == device,
        _ => rest.len() >= 10 && format!("{device}-").starts_with(rest),
    }
}

fn threads_of_lines(lines: &BTreeSet<u32>) -> io::Result<Vec<u32>> {
    threads_named(|thread| {
        let number = thread
            .strip_prefix("irq/")
            .and_then(|rest| rest.split('-').next());
        let number = number.and_then(|number| number.parse().ok());
        number.is_some_and(|number: u32| lines.contains(&number))
    })
}

/// The kernel's threads with a name of which something is true.
pub(crate) fn threads_named(is_meant: impl Fn(&str) -> bool) -> io::Result<Vec<u32>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // It may end meanwhile.
        let Ok(name) = fs::read_to_string(entry.path().join("comm")) else {
            continue;
        };
        if is_meant(name.trim_end()) && is_kernel_thread(pid) {
            threads.push(pid);
        }
    }
    threads.sort_unstable();
    Ok(threads)
}

/// Whether a thread is the kernel's: those have no memory of their own, and no command line.
pub fn is_kernel_thread(tid: u32) -> bool {
    fs::read(format!("/proc/{tid}/cmdline")).is_ok_and(|line| line.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn interrupts_are_found_by_number_and_by_name() {
        let text = "           CPU0       CPU1\n 24:  1  0  IO-APIC  5-edge  ACPI:Ged\n \
                    41:  7  0  PCI-MSIX-0000:00:04.0  1-edge  virtio3-rx, eth7\nNMI:  0  0  Non-maskable interrupts\n";
        assert_eq!(lines_named(text, "24"), [24].into());
        assert_eq!(lines_named(text, "virtio3-rx"), [41].into());
        assert_eq!(lines_named(text, "eth7"), [41].into());
        assert_eq!(lines_named(text, "virtio3"), BTreeSet::new());
    }

    #[test]
    fn threads_of_another_device_are_left_alone() {
        assert!(is_of_device("napi/eth0-259", "eth0"));
        assert!(is_of_device("napi/eth0-a-12", "eth0-a"));
        assert!(!is_of_device("napi/eth0-259", "eth"));
        assert!(!is_of_device("napi/eth01-259", "eth0"));
        assert!(!is_of_device("irq/24-eth0", "eth0"));
        // The number of a long name is cut off.
        assert!(is_of_device("napi/enp195s0f0", "enp195s0f0np0"));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_devices() {
        let error = InterruptParts::of("no-such-device").expect_err("there is none");
        assert!(error.to_string().contains("lo"), "{error}");
        assert!(InterruptParts::of("../net/lo").is_err());
    }
}
