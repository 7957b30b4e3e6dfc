//! Virtual machines of libvirt: `virsh` passes a question on to their monitors.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tailbound_linux::process::process_of;
use tailbound_linux::spawn::answer;

use super::monitor::threads;

/// How long `virsh` may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Where the system's libvirt notes the processes of its machines.
const NOTED: &str = "/run/libvirt/qemu";

/// The threads of the virtual CPUs of a machine of the system's libvirt, in their order.
pub(super) fn vcpus(name: &str) -> Result<Vec<u32>, String> {
    let threads = threads_by_libvirt(name)?;
    check(&threads, noted(Path::new(NOTED), name))?;
    Ok(threads)
}

/// The process of a machine, if libvirt has noted it.
fn noted(folder: &Path, name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(folder.join(format!("{name}.pid"))).ok()?;
    text.trim().parse().ok()
}

/// The machine itself says which threads they are; those of another process are a lie.
fn check(threads: &[u32], noted: Option<u32>) -> Result<(), String> {
    let foreign = |tid: &&u32| noted.is_some() && process_of(**tid).ok() != noted;
    match threads.iter().find(foreign) {
        None => Ok(()),
        Some(tid) => Err(format!(
            "its monitor names thread {tid}, which is none of its process {}; is it another machine's?",
            noted.unwrap_or_default()
        )),
    }
}

fn threads_by_libvirt(name: &str) -> Result<Vec<u32>, String> {
    let answer = ask(name)?;
    let value: Value = serde_json::from_str(&answer).map_err(|_| {
        format!(
            "virsh says: {}",
            answer.trim().chars().take(200).collect::<String>()
        )
    })?;
    threads(value.get("return").unwrap_or(&Value::Null))
        .ok_or_else(|| "virsh tells no virtual CPUs; is the machine running?".to_owned())
}

fn ask(name: &str) -> Result<String, String> {
    let mut command = Command::new("virsh");
    command
        .args(["--connect", "qemu:///system", "qemu-monitor-command", name])
        .arg(r#"{"execute": "query-cpus-fast"}"#);
    answer(&mut command, PATIENCE, ANSWER_BYTES_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => {
            "virsh has not answered within 10 s; is libvirtd running?".to_owned()
        }
        _ => format!("cannot run virsh: {error}; install libvirt-clients"),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tailbound_linux::process::own_thread;

    use super::*;

    #[test]
    fn threads_of_another_process_than_libvirts_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let note = |pid: u32| std::fs::write(folder.path().join("arm.pid"), format!("{pid}\n"));
        note(std::process::id()).unwrap();
        check(&[own_thread()], noted(folder.path(), "arm")).unwrap();
        note(1).unwrap();
        let refusal = check(&[own_thread()], noted(folder.path(), "arm")).unwrap_err();
        assert!(refusal.contains("process 1;"), "{refusal}");
        assert_eq!(noted(folder.path(), "camera"), None);
        check(&[own_thread()], None).unwrap();
    }
}
