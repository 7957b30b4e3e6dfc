//! Services and their promises.

use std::net::{Ipv4Addr, SocketAddr};

use super::Check;
use super::tasks::{once, request, task};
use super::users::users;
use super::web::web;
use crate::description::{Builtin, DomainKind, Protocol, Scheduling, Service};
use crate::parser::KeyPath;

/// The longest path of a Unix socket, in bytes (sun_path less its NUL).
pub(super) const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Checks the services, and that every built-in one is described.
pub(super) fn services(check: &mut Check<'_>) {
    let description = check.description;
    for (name, service) in &description.services {
        let place = KeyPath::root().key("services").key(name);
        let domains = check.names("domains");
        check.reference(&place.key("domain"), "domain", &service.domain, &domains);
        endpoint(check, &place, name, service);
        message_size(check, &place, service);
        builtin(check, &place, name, service);
        login(check, &place, service);
        web(check, &place, service);
        scheduling(check, &place, service);
        let tasks = check.tree.names_at(&place.key("tasks"));
        if tasks.is_empty() {
            check.error(
                &place.key("tasks"),
                "the service has no task",
                "describe at least one, or leave the service out",
            );
        }
        if let Some(sent) = &service.ready {
            let here = place.key("ready");
            request(check, &here, service.protocol, sent);
            once(check, &here, sent, "readiness is one request");
        }
        for (index, sent) in service.setup.iter().enumerate() {
            request(
                check,
                &place.key("setup").index(index),
                service.protocol,
                sent,
            );
        }
        for (task_name, content) in &service.tasks {
            task(check, &place.key("tasks").key(task_name), service, content);
        }
        users(check, &place, service);
        promises(check, &place, service);
    }
    builtins_without_service(check);
}

fn endpoint(check: &mut Check<'_>, place: &KeyPath, name: &str, service: &Service) {
    let here = place.key("endpoint");
    if let Err((message, remedy)) = endpoint_syntax(service.protocol, &service.endpoint) {
        check.error(&here, message, remedy);
    }
    let services = check.description.services.iter();
    let rival = services
        .take_while(|(other, _)| *other != name)
        .find(|(_, other)| other.endpoint == service.endpoint);
    if let Some((rival, _)) = rival {
        check.error(
            &here,
            format!("the service `{rival}` listens there already"),
            "give each service an endpoint of its own",
        );
    }
}

/// A fault of an endpoint, and the remedy.
type EndpointFault = (String, &'static str);

fn endpoint_syntax(protocol: Protocol, text: &str) -> Result<(), EndpointFault> {
    if protocol == Protocol::IcmpEcho {
        return match text.parse::<Ipv4Addr>() {
            Ok(_) => Ok(()),
            Err(_) => Err((
                format!("{text:?} is no IPv4 address"),
                "write the address alone, such as \"127.0.0.1\": echo requests have no port",
            )),
        };
    }
    let Some(message) = MessageSyntax::of(text) else {
        return stream_syntax(text);
    };
    if protocol != Protocol::Synthetic {
        return Err((
            format!("a service of this protocol speaks over a stream, and {text:?} is none"),
            "write \"unix:PATH\" or \"ADDRESS:PORT\", or choose protocol = \"synthetic\"",
        ));
    }
    message.check(text)
}

/// An endpoint where each request and each reply is a message of its own.
enum MessageSyntax<'a> {
    Datagrams(&'a str),
    Topics(&'a str),
}

impl<'a> MessageSyntax<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let datagrams = text.strip_prefix("udp:").map(Self::Datagrams);
        datagrams.or_else(|| text.strip_prefix("topic:").map(Self::Topics))
    }

    fn check(&self, text: &str) -> Result<(), EndpointFault> {
        match self {
            Self::Datagrams(address) if address.parse::<SocketAddr>().is_ok() => {
                stream_syntax(address)
            }
            Self::Datagrams(_) => Err((
                format!("{text:?} names no address for datagrams"),
                "write \"udp:ADDRESS:PORT\", such as \"udp:127.0.0.1:7500\"",
            )),
            Self::Topics(rest) => match rest.split_once(':') {
                Some((transport, address)) if !transport.is_empty() && !address.is_empty() => {
                    Ok(())
                }
                _ => Err((
                    format!("{text:?} names no transport with an address"),
                    "write \"topic:TRANSPORT:ADDRESS\", such as \"topic:udp:127.0.0.1:7410\"",
                )),
            },
        }
    }
}

/// Checks that a length of messages stands only where messages have one.
fn message_size(check: &mut Check<'_>, place: &KeyPath, service: &Service) {
    let has_messages =
        service.protocol == Protocol::IcmpEcho || MessageSyntax::of(&service.endpoint).is_some();
    if service.message_size.is_some() && !has_messages {
        check.error(
            &place.key("message_size"),
            "requests over a stream have the length that their protocol gives them",
            "leave it out; it is for endpoints `udp:` and `topic:`, and for protocol = \"icmp-echo\"",
        );
    }
}

fn stream_syntax(text: &str) -> Result<(), EndpointFault> {
    const EXAMPLES: &str = "write \"unix:PATH\" or \"ADDRESS:PORT\", such as \"127.0.0.1:6379\"";
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() || path.contains('\0') || path.ends_with('/') {
            return Err((format!("{text:?} names no socket"), EXAMPLES));
        }
        if path.len() > SOCKET_PATH_BYTES_MAX {
            let message = format!("the path of the socket has {} bytes", path.len());
            return Err((message, "the kernel takes at most 107; use a shorter path"));
        }
        return Ok(());
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return match address.port() {
            0 => Err((
                "port 0 is none to connect to".into(),
                "write a port from 1 to 65535",
            )),
            _ => Ok(()),
        };
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err((format!("{text:?} is no endpoint"), EXAMPLES));
    };
    if !port.parse::<u16>().is_ok_and(|port| port > 0) || port.starts_with('+') {
        return Err((
            format!("{port:?} is no port"),
            "write a port from 1 to 65535",
        ));
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    let numeric = host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match !host.is_empty() && host.bytes().all(plain) && !numeric {
        true => Ok(()),
        false => Err((format!("{host:?} is no address"), EXAMPLES)),
    }
}

fn builtin(check: &mut Check<'_>, place: &KeyPath, name: &str, service: &Service) {
    let Some(domain) = check.description.domains.get(&service.domain) else {
        return;
    };
    let is_synthetic = domain.builtin == Some(Builtin::SyntheticService);
    // A command may bring the service up elsewhere: in a container, in a guest.
    let may_bring_up = MessageSyntax::of(&service.endpoint).is_some()
        && domain.builtin.is_none()
        && !(domain.command.is_empty() && domain.kind == DomainKind::Process);
    match (service.protocol, is_synthetic) {
        (Protocol::Synthetic, false) if !may_bring_up => check.error(
            &place.key("protocol"),
            format!(
                "only the built-in synthetic service speaks this, and `{}` does not run it",
                service.domain
            ),
            format!(
                "add builtin = \"synthetic-service\" to domains.{}, or choose another protocol",
                service.domain
            ),
        ),
        (Protocol::Redis | Protocol::Http | Protocol::Postgresql | Protocol::IcmpEcho, true) => {
            check.error(
                &place.key("protocol"),
                format!(
                    "`{}` runs the built-in synthetic service, which does not speak this",
                    service.domain
                ),
                "write protocol = \"synthetic\"",
            )
        }
        _ => {}
    }
    let services = check.description.services.iter();
    let mut earlier = services.take_while(|(other, _)| *other != name);
    let rival = earlier.find(|(_, other)| is_synthetic && other.domain == service.domain);
    if let Some((rival, _)) = rival {
        check.error(
            &place.key("domain"),
            format!(
                "the synthetic service of `{}` is described already, by `{rival}`",
                service.domain
            ),
            "describe a domain of its own for each",
        );
    }
}

fn builtins_without_service(check: &mut Check<'_>) {
    let description = check.description;
    if !check.is_whole("services", description.services.len()) {
        return;
    }
    for (name, domain) in &description.domains {
        let described = description
            .services
            .values()
            .any(|service| service.domain == *name);
        if domain.builtin == Some(Builtin::SyntheticService) && !described {
            check.error(
                &KeyPath::root().key("domains").key(name).key("builtin"),
                "no service says what the synthetic service does",
                format!(
                    "describe one: a table below [services] with domain = \
\"{name}\" and protocol = \"synthetic\""
                ),
            );
        }
    }
}

/// Checks who logs in, where the protocol has a login.
fn login(check: &mut Check<'_>, place: &KeyPath, service: &Service) {
    let here = place.key("login");
    let login = match (&service.login, service.protocol) {
        (None, Protocol::Postgresql) => {
            return check.error(
                place,
                "nothing says who logs in",
                "add `login`, such as { user = \"postgres\" }",
            );
        }
        (None, _) => return,
        (Some(login), Protocol::Postgresql) => login,
        (Some(_), _) => {
            return check.error(
                &here,
                "nobody logs in to a service of this protocol",
                "leave it out; it is for protocol = \"postgresql\"",
            );
        }
    };
    let names = [Some(&login.user), login.database.as_ref()];
    for (key, name) in ["user", "database"].iter().zip(names) {
        if name.is_some_and(|name| name.is_empty() || name.contains('\0')) {
            let message = "the name is empty, or has a zero byte";
            check.error(
                &here.key(*key),
                message,
                "write a name, such as \"postgres\"",
            );
        }
    }
    if login.password_file.is_some() && login.password_variable.is_some() {
        check.error(
            &here.key("password_variable"),
            "the password comes from a file already",
            "leave out one of password_file and password_variable",
        );
    }
}

fn scheduling(check: &mut Check<'_>, place: &KeyPath, service: &Service) {
    let here = place.key("scheduling");
    if service.scheduling != Scheduling::Fifo && service.protocol == Protocol::Redis {
        check.error(
            &here,
            "Redis serves its requests in the order they come",
            "leave `scheduling` out",
        );
    } else if service.scheduling == Scheduling::RoundRobin {
        check.error(
            &here,
            "no service takes turns among its requests",
            "use another order, or describe `tasks` of the domain in place of the service",
        );
    }
}

fn promises(check: &mut Check<'_>, place: &KeyPath, service: &Service) {
    for (index, slo) in service.slos.iter().enumerate() {
        let here = place.key("slos").index(index);
        check.above_zero(&here.key("latency"), "the latency", slo.latency);
        if let Some(task) = &slo.task {
            let tasks = check.tree.names_at(&place.key("tasks"));
            check.reference(&here.key("task"), "task", task, &tasks);
        }
        let same =
            |other: &crate::Slo| other.percentile == slo.percentile && other.task == slo.task;
        if service.slos[..index].iter().any(same) {
            check.error(
                &here,
                format!("{} is promised twice for the same requests", slo.percentile),
                "keep one of the two",
            );
        }
    }
}
