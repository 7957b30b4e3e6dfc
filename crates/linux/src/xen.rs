//! Xen's RTDS scheduler, by way of the program `xl` in the control domain.
//!
//! Each virtual CPU has a period and a budget, and with `extratime` what others leave as well. A call
//! takes tenths of a second where the machine is slow, so all virtual CPUs are read at once.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::clock::cpu_time_of_process;
use crate::process::die_with_parent;

/// How long a call may do nothing. It waits for the hypervisor and for xenstored, which may have gone; and
/// those who change modes wait for it.
const IDLE_AT_MOST: Duration = Duration::from_secs(2);
/// How long a call may take. One that works is given time, since a dom0 that gets little CPU time is slow.
const AT_MOST: Duration = Duration::from_secs(10);
/// How often it is looked whether a call has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// What `xl` says of a domain that is not there.
const NO_SUCH_DOMAIN: &str = "is an invalid domain identifier";

/// What RTDS gives a virtual CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcpuSetting {
    /// The period, in microseconds.
    pub period_us: u64,
    /// The budget, in microseconds.
    pub budget_us: u64,
    /// Whether it gets what others leave beyond its budget.
    pub extratime: bool,
}

/// A virtual CPU under RTDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vcpu {
    /// The pool of CPUs that it is scheduled in.
    pub pool: String,
    /// The name of its domain.
    pub domain: String,
    /// The number of its domain, which no later one has.
    pub id: u32,
    /// Its number in its domain.
    pub vcpu: u32,
    /// What it gets.
    pub setting: VcpuSetting,
}

/// A pool of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XenPool {
    /// Its name.
    pub name: String,
    /// How many CPUs it has.
    pub cpus: u32,
    /// Its scheduler, such as `rtds` or `credit2`.
    pub scheduler: String,
}

/// A line of `xl`'s that is none of the table that was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of `{command}` is {text:?}; {expected} should stand there")]
pub struct NotATable {
    /// What was called.
    pub command: &'static str,
    /// The line, from 1 on.
    pub line: usize,
    /// What stands there, cut short.
    pub text: String,
    /// What should.
    pub expected: &'static str,
}

fn not_a_table(
    command: &'static str,
    place: usize,
    line: &str,
    expected: &'static str,
) -> NotATable {
    NotATable {
        command,
        line: place + 1,
        text: line.chars().take(80).collect(),
        expected,
    }
}

/// Whether a line is the head of a table.
fn is_head(line: &str) -> bool {
    line.starts_with("Name ") && (line.contains("Period") || line.contains("CPUs"))
}

/// Reads what `xl sched-rtds -v all` prints.
///
/// # Errors
/// The first line that is neither a pool, nor a head, nor a virtual CPU.
pub fn parse_vcpus(text: &str) -> Result<Vec<Vcpu>, NotATable> {
    const EXPECTED: &str = "a pool, or a name, ID, VCPU, period, budget and extratime";
    let mut pool = String::new();
    let mut vcpus = Vec::new();
    for (place, line) in text.lines().enumerate() {
        let pool_line = line.strip_prefix("Cpupool ");
        if let Some((name, _)) = pool_line.and_then(|rest| rest.rsplit_once(": sched=")) {
            pool = name.to_owned();
        } else if !line.trim().is_empty() && !is_head(line) {
            let vcpu = vcpu(&pool, line);
            let command = "xl sched-rtds -v all";
            vcpus.push(vcpu.ok_or_else(|| not_a_table(command, place, line, EXPECTED))?);
        }
    }
    Ok(vcpus)
}

/// A row, read from its end: a name may have blanks in it.
fn vcpu(pool: &str, line: &str) -> Option<Vcpu> {
    let mut fields = line.split_whitespace().rev();
    let extratime = match fields.next()? {
        "yes" => true,
        "no" => false,
        _ => return None,
    };
    let budget_us = fields.next()?.parse().ok()?;
    let period_us = fields.next()?.parse().ok()?;
    let vcpu = fields.next()?.parse().ok()?;
    let id = fields.next()?.parse().ok()?;
    Some(Vcpu {
        pool: pool.to_owned(),
        domain: name(fields)?,
        id,
        vcpu,
        setting: VcpuSetting {
            period_us,
            budget_us,
            extratime,
        },
    })
}

/// What is left of a row is its name.
fn name<'a>(fields: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut words: Vec<&str> = fields.collect();
    words.reverse();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Reads what `xl cpupool-list` prints.
///
/// # Errors
/// The first line that is neither a head nor a pool.
pub fn parse_pools(text: &str) -> Result<Vec<XenPool>, NotATable> {
    const EXPECTED: &str = "a name, CPUs, scheduler, whether it is active, and a number of domains";
    let lines = text.lines().enumerate();
    let rows = lines.filter(|(_, line)| !line.trim().is_empty() && !is_head(line));
    rows.map(|(place, line)| {
        pool(line).ok_or_else(|| not_a_table("xl cpupool-list", place, line, EXPECTED))
    })
    .collect()
}

fn pool(line: &str) -> Option<XenPool> {
    let mut fields = line.split_whitespace().rev();
    let _domains: u32 = fields.next()?.parse().ok()?;
    let _active = fields.next()?;
    let scheduler = fields.next()?.to_owned();
    let cpus = fields.next()?.parse().ok()?;
    Some(XenPool {
        name: name(fields)?,
        cpus,
        scheduler,
    })
}

/// Whether this is the control domain of a Xen host.
pub fn is_control_domain() -> bool {
    std::fs::read_to_string("/proc/xen/capabilities")
        .is_ok_and(|capabilities| capabilities.contains("control_d"))
}

/// The pools of CPUs.
///
/// # Errors
/// `xl` is not there, or what it says.
pub fn pools() -> io::Result<Vec<XenPool>> {
    let text = xl(&["cpupool-list"])?;
    parse_pools(&text).map_err(io::Error::other)
}

/// All virtual CPUs under RTDS.
///
/// # Errors
/// `xl` is not there, or what it says.
pub fn vcpus() -> io::Result<Vec<Vcpu>> {
    let text = xl(&["sched-rtds", "-v", "all"])?;
    parse_vcpus(&text).map_err(io::Error::other)
}

/// The words after `xl` that set a virtual CPU. It wants all three numbers.
pub fn words_to_set(id: u32, vcpu: u32, setting: VcpuSetting) -> Vec<String> {
    let VcpuSetting {
        period_us,
        budget_us,
        extratime,
    } = setting;
    let options = [
        ("-d", u64::from(id)),
        ("-v", u64::from(vcpu)),
        ("-p", period_us),
        ("-b", budget_us),
        ("-e", u64::from(extratime)),
    ];
    let mut words = vec!["sched-rtds".to_owned()];
    for (option, value) in options {
        words.extend([option.to_owned(), value.to_string()]);
    }
    words
}

/// Sets what a virtual CPU gets.
///
/// # Errors
/// `NotFound` if its domain has gone, by what `xl` says and by the list of those that are there; otherwise
/// what `xl` says.
pub fn set_vcpu(id: u32, vcpu: u32, setting: VcpuSetting) -> io::Result<()> {
    let words = words_to_set(id, vcpu, setting);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match xl(&words) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(confirmed(error, id, vcpus())),
        outcome => outcome.map(drop),
    }
}

/// Who is told that a domain has gone forgets what is to be put back there. `xl` says so as well of one
/// that it could not ask, so its word alone does not count.
fn confirmed(error: io::Error, id: u32, listed: io::Result<Vec<Vcpu>>) -> io::Error {
    match listed {
        Ok(vcpus) if vcpus.iter().all(|one| one.id != id) => error,
        Ok(_) => io::Error::other(format!("{error}; yet the domain is listed")),
        Err(why) => io::Error::other(format!("{error}; it cannot be looked up: {why}")),
    }
}

/// Runs `xl`; what it prints.
fn xl(words: &[&str]) -> io::Result<String> {
    call(Path::new("xl"), words, IDLE_AT_MOST)
}

fn call(program: &Path, words: &[&str], idle_at_most: Duration) -> io::Result<String> {
    let mut command = Command::new(program);
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = die_with_parent(&mut command)
        .spawn()
        .map_err(|error| io::Error::other(format!("cannot run xl: {error}")))?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let output = thread::spawn(move || output.map_or(Ok(String::new()), io::read_to_string));
    let errors = thread::spawn(move || {
        let mut message = String::new();
        // What cannot be read is not told; the status says that it failed.
        let _unread = errors.map(|mut errors| errors.read_to_string(&mut message));
        message
    });
    let status = ended(&mut child, words, idle_at_most)?;
    let gone = |_| io::Error::other("the thread that read from xl has panicked");
    let (output, errors) = (output.join().map_err(gone)??, errors.join().map_err(gone)?);
    if status {
        return Ok(output);
    }
    let kind = match errors.contains(NO_SUCH_DOMAIN) || errors.contains("Non-existant domain") {
        true => io::ErrorKind::NotFound,
        false => io::ErrorKind::Other,
    };
    let message = errors.trim().replace('\n', "; ");
    Err(io::Error::new(
        kind,
        format!("xl {}: {message}", words.join(" ")),
    ))
}

/// Waits for the end of a call; whether it went well.
fn ended(child: &mut Child, words: &[&str], idle_at_most: Duration) -> io::Result<bool> {
    let began = Instant::now();
    let (mut used, mut worked) = (None, began);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        let now = Instant::now();
        let so_far = cpu_time_of_process(child.id()).ok();
        if so_far != used {
            (used, worked) = (so_far, now);
        }
        let did = match (now - worked >= idle_at_most, now - began >= AT_MOST) {
            (true, _) => format!("has done nothing for {idle_at_most:?}"),
            (false, true) => format!("did not end within {AT_MOST:?}"),
            (false, false) => {
                thread::sleep(LOOK_EVERY);
                continue;
            }
        };
        child.kill()?;
        child.wait()?;
        return Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("xl {} {did}; is xenstored there?", words.join(" ")),
        ));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;

    /// Printed by xl 4.17 on a host with a dom0 and one domU.
    const VCPUS: &str = "\
Cpupool Pool-0: sched=RTDS
Name                                ID VCPU    Period    Budget  Extratime
Domain-0                             0    0     10000      4000        yes
arm                                  1    0    100000     40000         no
";
    const POOLS: &str = "\
Name               CPUs   Sched     Active   Domain count
Pool-0               2      rtds       y          2
";

    #[test]
    fn what_xl_prints_is_read() {
        let vcpus = parse_vcpus(VCPUS).unwrap();
        assert_eq!(vcpus.len(), 2);
        assert_eq!(vcpus[0].domain, "Domain-0");
        assert!(vcpus[0].setting.extratime);
        let arm = Vcpu {
            pool: "Pool-0".into(),
            domain: "arm".into(),
            id: 1,
            vcpu: 0,
            setting: VcpuSetting {
                period_us: 100_000,
                budget_us: 40_000,
                extratime: false,
            },
        };
        assert_eq!(vcpus[1], arm);
        let pool = XenPool {
            name: "Pool-0".into(),
            cpus: 2,
            scheduler: "rtds".into(),
        };
        assert_eq!(parse_pools(POOLS).unwrap(), [pool]);
    }

    #[test]
    fn what_it_is_told_has_all_three_numbers() {
        let setting = VcpuSetting {
            period_us: 100_000,
            budget_us: 40_000,
            extratime: false,
        };
        let words = words_to_set(1, 3, setting).join(" ");
        assert_eq!(words, "sched-rtds -d 1 -v 3 -p 100000 -b 40000 -e 0");
    }

    #[test]
    fn a_domain_has_gone_if_it_is_not_listed_either() {
        let listed = || Ok(parse_vcpus(VCPUS).unwrap());
        let refusal =
            || io::Error::new(io::ErrorKind::NotFound, "1 is an invalid domain identifier");
        let kind = |id, listed| confirmed(refusal(), id, listed).kind();
        assert_eq!(kind(7, listed()), io::ErrorKind::NotFound);
        assert_eq!(kind(1, listed()), io::ErrorKind::Other);
        let silent = Err(io::ErrorKind::TimedOut.into());
        assert_eq!(kind(7, silent), io::ErrorKind::Other);
    }

    #[test]
    fn a_call_that_does_nothing_is_ended_and_a_slow_one_is_not() {
        let idle = Duration::from_millis(500);
        let error = call(Path::new("sleep"), &["60"], idle).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("nothing for 500ms"), "{error}");
        assert!(error.to_string().contains("xenstored"), "{error}");
        // A second and a half at least, with a little to do again and again.
        let slow = "n=0; while [ $n -lt 150 ]; do n=$((n + 1)); sleep 0.01; done; echo done";
        let output = call(Path::new("sh"), &["-c", slow], idle).unwrap();
        assert_eq!(output, "done\n");
    }

    #[test]
    fn a_call_that_works_without_end_is_ended() {
        let endless = ["-c", "while :; do :; done"];
        let error = call(Path::new("sh"), &endless, IDLE_AT_MOST).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("within 10s"), "{error}");
    }

    #[test]
    fn a_line_that_is_none_is_told() {
        let error = parse_vcpus(&VCPUS.replace("40000 ", "40_00 ")).unwrap_err();
        assert_eq!(error.line, 4);
        assert!(error.to_string().contains("xl sched-rtds -v all"));
        assert!(parse_pools("Pool-0  two rtds y 2\n").is_err());
        assert_eq!(parse_vcpus("").unwrap(), []);
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String) {
            let _outcomes = (parse_vcpus(&text), parse_pools(&text));
        }

        #[test]
        fn mutated_tables_are_read_or_refused(
            place in any::<prop::sample::Index>(),
            piece in "[ a-zA-Z0-9:=\n-]{0,6}",
        ) {
            let mut text = VCPUS.to_owned();
            let place = place.index(text.len());
            text.replace_range(place..(place + 3).min(text.len()), &piece);
            if let Ok(vcpus) = parse_vcpus(&text) {
                prop_assert!(vcpus.len() <= text.lines().count());
                prop_assert!(vcpus.iter().all(|one| !one.domain.is_empty()));
            }
        }

        #[test]
        fn printed_rows_are_read_back(
            name in "[a-zA-Z][a-zA-Z0-9_ -]{0,12}[a-z]",
            id: u32, vcpu: u32, period_us: u64, budget_us: u64, extratime: bool,
        ) {
            let word = if extratime { "yes" } else { "no" };
            let row = format!("{name:<33} {id:4} {vcpu:4} {period_us:9} {budget_us:9} {word:>10}\n");
            let read = parse_vcpus(&row).unwrap();
            let name: Vec<&str> = name.split_whitespace().collect();
            prop_assert_eq!(&read[0].domain, &name.join(" "));
            let setting = VcpuSetting { period_us, budget_us, extratime };
            prop_assert_eq!((read[0].id, read[0].vcpu, read[0].setting), (id, vcpu, setting));
        }
    }
}
