//! Tables of nftables of ours: what the kernel drops before it reaches a socket.
//!
//! The kernel takes a table in one step or not at all. `nft` writes it; its tables are those of the network namespace that it runs
//! in: that of this process, or another one.

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::process::{Command, Output, Stdio};

use crate::network_interface::NetworkPlace;
use crate::process::die_with_parent;

/// The program that writes tables.
const NFT: &str = "nft";
/// The family of our tables: IPv4 and IPv6.
const FAMILY: &str = "inet";

/// The names of the tables that there are.
///
/// # Errors
/// `nft` is not installed, or the kernel has no nftables, or lets this process see none; `NotFound` if the network namespace is
/// not there.
pub fn names(network: Option<&NetworkPlace>) -> io::Result<Vec<String>> {
    let listed = nft(network, &["list", "tables", FAMILY], "")?;
    Ok(parse_names(&listed))
}

/// Makes a table of this name by commands that add to it, in place of one of the same name.
///
/// # Errors
/// What `nft` says.
pub fn replace(network: Option<&NetworkPlace>, name: &str, commands: &[String]) -> io::Result<()> {
    let mut input = replacement(name, commands).join("\n");
    input.push('\n');
    nft(network, &["-f", "-"], &input).map(drop)
}

/// Removes a table.
///
/// # Errors
/// `NotFound` if there is none of this name, or no such network namespace; otherwise what `nft` says.
pub fn remove(network: Option<&NetworkPlace>, name: &str) -> io::Result<()> {
    if !names(network)?.iter().any(|one| one == name) {
        return Err(io::ErrorKind::NotFound.into());
    }
    nft(network, &["delete", "table", FAMILY, name], "").map(drop)
}

/// The commands that put a table in the place of one of the same name, in one step: `nft` deletes only a table that is there.
pub fn replacement(name: &str, commands: &[String]) -> Vec<String> {
    let table = ["add", "delete", "add"].map(|verb| format!("{verb} table {FAMILY} {name}"));
    table.into_iter().chain(commands.iter().cloned()).collect()
}

/// The name of the network interface that has this address.
///
/// # Errors
/// `NotFound` if none has it, or the network namespace is not there; otherwise what the kernel says.
pub fn interface_with(network: Option<&NetworkPlace>, address: Ipv4Addr) -> io::Result<String> {
    let mut command = Command::new("ip");
    command.args(["-o", "-4", "address", "show"]);
    let listed = run(network, &mut command, "")?;
    let interface = parse_interfaces(&listed).find(|(_, own)| *own == address);
    let (name, _) = interface.ok_or_else(|| {
        let reason = format!("no network interface has the address {address}");
        io::Error::new(io::ErrorKind::NotFound, reason)
    })?;
    Ok(name.to_owned())
}

/// The names in the output of `nft list tables`: lines such as `table inet NAME`.
fn parse_names(listed: &str) -> Vec<String> {
    let names = listed.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let is_ours = words.next() == Some("table") && words.next() == Some(FAMILY);
        words.next().filter(|_| is_ours)
    });
    names.map(str::to_owned).collect()
}

/// The interfaces in the output of `ip -o -4 address show`: lines such as `2: eth0    inet 10.0.0.2/24 ...`.
fn parse_interfaces(listed: &str) -> impl Iterator<Item = (&str, Ipv4Addr)> {
    listed.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let name = words.next()?;
        let address = words.skip_while(|word| *word != "inet").nth(1)?;
        let address = address.split('/').next()?.parse().ok()?;
        Some((name, address))
    })
}

fn nft(network: Option<&NetworkPlace>, words: &[&str], input: &str) -> io::Result<String> {
    run(network, Command::new(NFT).args(words), input)
}

/// Runs a program in a network namespace; its output.
fn run(network: Option<&NetworkPlace>, command: &mut Command, input: &str) -> io::Result<String> {
    if let Some(network) = network {
        network.open()?.enclose(command);
    }
    let program = command.get_program().to_string_lossy().into_owned();
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = die_with_parent(command)
        .spawn()
        .map_err(|error| io::Error::other(format!("cannot run {program}: {error}")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends before it has read all says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output()?;
    match status.success() {
        true => Ok(String::from_utf8_lossy(&stdout).into_owned()),
        false => {
            let message = String::from_utf8_lossy(&stderr);
            let message = message.lines().next().unwrap_or("it failed").to_owned();
            Err(io::Error::other(format!("{program}: {message}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_our_family() {
        let listed = "table ip filter\ntable inet tailbound-a\n\ntable inet\nnonsense\n";
        assert_eq!(parse_names(listed), ["tailbound-a"]);
    }

    #[test]
    fn interfaces_have_the_addresses_that_ip_lists() {
        let listed = "1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever\n\
            2: eth0    inet 10.0.0.2 peer 10.0.0.1/32 scope global eth0\n3: bad\n4: worse    inet x/8\n";
        let interfaces: Vec<_> = parse_interfaces(listed).collect();
        let expected = [
            ("lo", Ipv4Addr::LOCALHOST),
            ("eth0", Ipv4Addr::new(10, 0, 0, 2)),
        ];
        assert_eq!(interfaces, expected);
    }

    #[test]
    fn a_table_is_replaced_in_one_step() {
        let commands = replacement("tailbound-a", &["add chain inet tailbound-a x".to_owned()]);
        let expected = [
            "add table inet tailbound-a",
            "delete table inet tailbound-a",
            "add table inet tailbound-a",
            "add chain inet tailbound-a x",
        ];
        assert_eq!(commands, expected);
    }
}
