//! How the values of arguments are read.

use std::net::SocketAddr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tailbound_analysis::LimitStanza;
use tailbound_model::{BackendKind, BudgetScope, ServerKind, UnknownBackend};
use tailbound_reservation::Rule;

/// The rules that response times are calculated for.
const SERVERS: [(ServerKind, &str); 4] = [
    (ServerKind::Deferrable, "Keeps its budget within the period"),
    (ServerKind::Periodic, "Loses what nothing needs"),
    (
        ServerKind::Polling,
        "Gets a budget only for the work that is there when a period starts",
    ),
    (
        ServerKind::ConstantBandwidth,
        "SCHED_DEADLINE's rules: a hard constant-bandwidth server",
    ),
];

/// Reads the rule of a reservation server, or `dedicated` for a CPU without a limit.
pub(super) fn server_rule() -> impl TypedValueParser<Value = Rule> {
    let servers = SERVERS.map(|(kind, help)| PossibleValue::new(kind.answers().name).help(help));
    let dedicated = PossibleValue::new("dedicated").help("A CPU of its own");
    let values = servers.into_iter().chain([dedicated]);
    PossibleValuesParser::new(values).map(|text| {
        let mut kinds = SERVERS.iter().map(|(kind, _)| *kind);
        let kind = kinds.find(|kind| kind.answers().name == text);
        kind.map_or(Rule::Unlimited, Rule::Server)
    })
}

/// Reads the form in which a CPU limit is set.
pub(super) fn limit_stanza() -> impl TypedValueParser<Value = LimitStanza> {
    let value = |form: LimitStanza| {
        PossibleValue::new(form.name()).help(match form {
            LimitStanza::Kubernetes => "`resources` of a container in a manifest of Kubernetes",
            LimitStanza::Systemd => "`CPUQuota=` of a unit, as a drop-in",
            LimitStanza::Docker => "Options of `docker run` and `podman run`",
        })
    };
    PossibleValuesParser::new(LimitStanza::ALL.map(value)).map(|text| {
        let mut forms = LimitStanza::ALL.into_iter();
        let named = forms.find(|form| form.name() == text);
        named.unwrap_or(LimitStanza::Kubernetes)
    })
}

/// Reads where a server listens. Names are left out, since they may become another address.
pub(super) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let remedy = "an address is one of this host with a port, such as 127.0.0.1:9464 or [::1]:9464";
    text.parse().map_err(|_| remedy.to_owned())
}

pub(super) fn scale(text: &str) -> Result<f64, String> {
    let number: f64 = text
        .parse()
        .map_err(|_| "a factor is a number such as 0.1")?;
    if number.is_finite() && (0.001..=1000.0).contains(&number) {
        Ok(number)
    } else {
        Err("a factor lies between 0.001 and 1000".into())
    }
}

/// Reads a share above 0 and below 1, or one in percent.
pub(super) fn probability(text: &str) -> Result<f64, String> {
    let (number, whole) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let share = number.parse::<f64>().map(|number| number / whole);
    match share {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("a share of runs lies above 0 and below 1, such as 0.97 or 97%".into()),
    }
}

pub(super) fn back_end(text: &str) -> Result<BackendKind, String> {
    text.parse()
        .map_err(|unknown: UnknownBackend| unknown.to_string())
}

/// Reads the CPUs that one budget is for, as a description names them.
pub(super) fn budget_scope() -> impl TypedValueParser<Value = BudgetScope> {
    const SCOPES: [(BudgetScope, &str); 2] = [
        (BudgetScope::EachCpu, "Each CPU has the budget"),
        (BudgetScope::AllCpus, "All CPUs together have one budget"),
    ];
    let values = SCOPES.map(|(scope, help)| PossibleValue::new(scope.name()).help(help));
    PossibleValuesParser::new(values).map(|text| {
        let mut scopes = SCOPES.iter().map(|(scope, _)| *scope);
        let scope = scopes.find(|scope| scope.name() == text);
        scope.unwrap_or_default()
    })
}

pub(super) fn scheduling(text: &str) -> Result<tailbound_model::Scheduling, String> {
    by_name(
        text,
        "fifo, rate-monotonic, deadline-monotonic, earliest-deadline-first, fixed-priority",
    )
}

/// Reads a name as the description file spells it, so that there is one spelling.
pub(super) fn by_name<T: serde::de::DeserializeOwned>(
    text: &str,
    names: &str,
) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::String(text.into()))
        .map_err(|_| format!("unknown name; use one of {names}"))
}
