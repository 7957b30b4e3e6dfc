//! CPU limits of containers, as manifests of Kubernetes and files of Docker Compose set them.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod tree;

use serde_saphyr::{Location, Spanned};
use tailbound_analysis::CpuLimit;
use tailbound_model::{Problem, Problems, Severity};
use tree::Node;

/// Where a container of Kubernetes has its limit.
const KUBERNETES: [&str; 3] = ["resources", "limits", "cpu"];
/// Where a service of Compose has it, in the order in which Docker looks.
const COMPOSE: [&[&str]; 2] = [&["deploy", "resources", "limits", "cpus"], &["cpus"]];
/// What a limit looks like in either.
const QUANTITY: &str =
    "a limit is a number of CPUs such as 0.13, or thousandths of one such as 130m";

/// `Container` is a container of a manifest.
struct Container<'a> {
    /// The object that it belongs to; none in a file of Compose.
    workload: Option<&'a str>,
    name: &'a str,
    /// Where it stands.
    place: Location,
    /// The key of its limit in full, whether it has one or not.
    key: String,
    limit: Option<&'a Spanned<Node>>,
}

impl Container<'_> {
    /// Its name, with its workload's before it.
    fn full_name(&self) -> String {
        match self.workload {
            Some(workload) => format!("{workload}/{}", self.name),
            None => self.name.to_owned(),
        }
    }
}

/// Reads the CPU limit of a container from a manifest of Kubernetes (a Pod, or what has a template of one, such as a
/// Deployment; several documents and lists of objects, too) or a file of Docker Compose, in YAML or JSON. `container`
/// names the container, or `WORKLOAD/CONTAINER`; it may be left out where there is one alone. `file` names the file in
/// problems. Containers of Kubernetes that end before the others begin are left out.
///
/// # Errors
/// What is no YAML, a file without containers, a container that is not there or not the only one of its name, and a limit
/// that is missing or no number of CPUs.
pub fn container_limit(
    text: &str,
    container: Option<&str>,
    file: &str,
) -> Result<CpuLimit, Problems> {
    read_limit(text, container, file)?
}

/// The limit of [`container_limit`], where a container may have none.
///
/// # Errors
/// As of [`container_limit`], except that no limit need be there.
pub fn container_limit_if_any(
    text: &str,
    container: Option<&str>,
    file: &str,
) -> Result<Option<CpuLimit>, Problems> {
    Ok(read_limit(text, container, file)?.ok())
}

/// The limit of a container, or the problem that it has none.
fn read_limit(
    text: &str,
    container: Option<&str>,
    file: &str,
) -> Result<Result<CpuLimit, Problems>, Problems> {
    let problem = |place: Location, key: &str, message: String, remedy: &str| {
        Problems::new(vec![problem(text, file, place, key, message, remedy)])
    };
    let documents: Vec<Spanned<Node>> = serde_saphyr::from_multiple(text).map_err(|error| {
        let place = error.location().unwrap_or(Location::UNKNOWN);
        let message = error.without_snippet().to_string();
        let remedy = match text.contains("{{") {
            true => "templates are rendered first, as by `helm template`",
            false => "give a manifest in YAML or JSON",
        };
        problem(place, "", format!("this is no YAML: {message}"), remedy)
    })?;
    let mut containers = Vec::new();
    for document in &documents {
        add_pods(&document.value, &mut containers);
        add_services(&document.value, &mut containers);
    }
    let chosen = choose(&containers, container)
        .map_err(|(message, remedy)| problem(Location::UNKNOWN, "", message, &remedy))?;
    let Some(limit) = chosen.limit else {
        let message = format!("container {} has no CPU limit", chosen.full_name());
        let remedy = "set one, or predict one with --limit 130m; requests are shares and no limit";
        return Ok(Err(problem(chosen.place, &chosen.key, message, remedy)));
    };
    let limit = quantity(&limit.value)
        .map_err(|message| problem(limit.defined, &chosen.key, message, QUANTITY))?;
    Ok(Ok(limit))
}

/// A limit in the notation of a manifest, which is a part of what a command line takes.
fn quantity(node: &Node) -> Result<CpuLimit, String> {
    let Node::Scalar(text) = node else {
        return Err("a limit is one value".into());
    };
    let number = text.strip_suffix('m').unwrap_or(text);
    let is_number = number.chars().all(|one| one.is_ascii_digit() || one == '.');
    match is_number {
        true => text.parse::<CpuLimit>().map_err(|error| error.what),
        false => Err(format!("\"{text}\" is no limit of CPU time")),
    }
}

/// The container of that name, or the only one.
fn choose<'c, 'a>(
    containers: &'c [Container<'a>],
    asked: Option<&str>,
) -> Result<&'c Container<'a>, (String, String)> {
    let names = |containers: &mut dyn Iterator<Item = &Container<'_>>| {
        containers
            .map(Container::full_name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let named =
        |one: &&Container<'_>| asked.is_none_or(|name| one.name == name || one.full_name() == name);
    let matching: Vec<_> = containers.iter().filter(named).collect();
    match (matching.as_slice(), asked) {
        ([one], _) => Ok(one),
        ([], None) => Err((
            "there is no container in it".into(),
            "give a manifest of a Pod, a Deployment or the like, or a file of Docker Compose with services".into(),
        )),
        ([], Some(name)) => Err((
            format!("there is no container {name} in it"),
            match containers {
                [] => "it has no container at all".into(),
                all => format!("it has: {}", names(&mut all.iter())),
            },
        )),
        (several, _) => Err((
            format!("it has {} containers that may be meant", several.len()),
            format!("name one with --service: {}", names(&mut several.iter().copied())),
        )),
    }
}

/// Adds the containers of an object of Kubernetes, or of those in a list.
fn add_pods<'a>(object: &'a Node, containers: &mut Vec<Container<'a>>) {
    for item in object.list("items") {
        add_pods(&item.value, containers);
    }
    let workload = object.text_at(&["metadata", "name"]);
    let (mut pod, mut path) = (object, String::new());
    // A Pod has its containers in its spec; what makes Pods has a template of one there, and a CronJob one of a Job.
    while let Some(spec) = pod.get("spec") {
        path += "spec.";
        for container in spec.value.list("containers") {
            let Some(name) = container.value.text_at(&["name"]) else {
                continue;
            };
            containers.push(Container {
                workload,
                name,
                place: container.defined,
                key: format!("{path}containers.{name}.{}", KUBERNETES.join(".")),
                limit: container.value.at(&KUBERNETES),
            });
        }
        let next = ["jobTemplate", "template"];
        let Some((key, template)) = next
            .iter()
            .find_map(|key| Some((key, spec.value.get(key)?)))
        else {
            return;
        };
        path += &format!("{key}.");
        pod = &template.value;
    }
}

/// Adds the services of a file of Compose.
fn add_services<'a>(document: &'a Node, containers: &mut Vec<Container<'a>>) {
    let Some(Node::Map(services)) = document.get("services").map(|services| &services.value) else {
        return;
    };
    for (name, service) in services {
        let entry = COMPOSE
            .iter()
            .find_map(|path| Some((*path, service.value.at(path)?)));
        let (path, limit) = entry.map_or((COMPOSE[0], None), |(path, limit)| (path, Some(limit)));
        containers.push(Container {
            workload: None,
            name,
            place: service.defined,
            key: format!("services.{name}.{}", path.join(".")),
            limit,
        });
    }
}

fn problem(
    text: &str,
    file: &str,
    place: Location,
    key: &str,
    message: String,
    remedy: &str,
) -> Problem {
    let begin = place
        .span()
        .byte_offset()
        .map_or(0, |offset| offset as usize)
        .min(text.len());
    let length = place.span().byte_len().map_or(0, |length| length as usize);
    let boundary = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let end = boundary(begin.saturating_add(length).min(text.len()));
    let begin = boundary(begin);
    Problem {
        severity: Severity::Error,
        file: file.to_owned(),
        line: (place.line() as usize).max(1),
        column: (place.column() as usize).max(1),
        span: begin..end.max(begin),
        key: key.to_owned(),
        message,
        remedy: remedy.to_owned(),
    }
}

#[cfg(test)]
mod tests;
