//! How the values of arguments are read.

use tailbound_model::{BackendKind, Percentile};
use tailbound_time::Duration;

use super::{PeriodRange, PromiseText, TaskText};

pub(super) fn percentile(text: &str) -> Result<Percentile, String> {
    let number: f64 = text
        .parse()
        .map_err(|_| "a percentile is a number such as 99.9")?;
    if number > 0.0 && number < 100.0 {
        Ok(Percentile(number))
    } else {
        Err("a percentile lies above 0 and below 100".into())
    }
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    let number: f64 = text
        .parse()
        .map_err(|_| "a share of all responses is a number such as 0.99")?;
    if number > 0.0 && number < 1.0 {
        Ok(number)
    } else {
        Err("a share of all responses lies above 0 and below 1, such as 0.99".into())
    }
}

pub(super) fn promise(text: &str) -> Result<PromiseText, String> {
    let form = "a promise is a percentile and a latency, such as p99=30ms";
    let (percent, latency) = text
        .strip_prefix('p')
        .and_then(|rest| rest.split_once('='))
        .ok_or(form)?;
    let latency = latency
        .parse()
        .map_err(|error| format!("{form}: {error}"))?;
    Ok(PromiseText {
        probability: percentile(percent)?.probability(),
        latency,
    })
}

pub(super) fn task(text: &str) -> Result<TaskText, String> {
    let form = "a task is execution/period, such as 10ms/100ms, 10ms/100ms/80ms or 10ms/100ms+30ms";
    let time = |text: &str| {
        text.trim()
            .parse::<Duration>()
            .map_err(|error| format!("{form}: {error}"))
    };
    let (times, offset) = match text.split_once('+') {
        Some((times, offset)) => (times, Some(time(offset)?)),
        None => (text, None),
    };
    let parts: Vec<&str> = times.split('/').collect();
    match parts[..] {
        [execution, period] => Ok(TaskText {
            execution: time(execution)?,
            period: time(period)?,
            deadline: None,
            offset,
        }),
        [execution, period, deadline] => Ok(TaskText {
            execution: time(execution)?,
            period: time(period)?,
            deadline: Some(time(deadline)?),
            offset,
        }),
        _ => Err(form.into()),
    }
}

pub(super) fn period_range(text: &str) -> Result<PeriodRange, String> {
    let one = |text: &str| {
        text.parse::<Duration>().map_err(|error| {
            format!("a period is a time such as 10ms, or a range such as 1ms..100ms: {error}")
        })
    };
    let (low, high) = match text.split_once("..") {
        Some((low, high)) => (one(low)?, one(high)?),
        None => (one(text)?, one(text)?),
    };
    if low.is_zero() || low > high {
        return Err("a range of periods begins above zero and does not fall".into());
    }
    Ok(PeriodRange { low, high })
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

pub(super) fn back_end(text: &str) -> Result<BackendKind, String> {
    by_name(
        text,
        "ds-freeze, deadline, rt-group, cfs-quota, dedicated, none",
    )
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
