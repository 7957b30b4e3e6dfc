//! The names that container engines give to the containers of OCI runtimes.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;

use super::{Labels, entries, file_name, json, text};

/// A name of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EngineName {
    /// The engine that gives it.
    pub engine: &'static str,
    /// The name.
    pub name: String,
    /// The identifier of the container, in its runtime too.
    pub id: String,
}

/// The names that the engines of a host know, of containers that run and of others.
pub(super) fn names(host: &Path) -> Vec<EngineName> {
    let mut names = of_podman(host);
    names.extend(of_docker(host));
    names.extend(of_nerdctl(host));
    names
}

/// The labels that engines keep in files, by the identifiers of the containers: those of docker. podman and containerd keep
/// theirs in databases ([`super::database_labels`]).
pub(super) fn labels(host: &Path) -> BTreeMap<String, Labels> {
    let folders = entries(&host.join("var/lib/docker/containers")).into_iter();
    let labels = folders.filter_map(|folder| {
        let configuration = json(&folder.join("config.v2.json"))?;
        let labels = texts(&configuration["Config"]["Labels"]);
        Some((file_name(&folder)?.to_owned(), labels))
    });
    labels.collect()
}

/// The texts of an object of JSON, by their keys; none of anything else.
pub(super) fn texts(object: &Json) -> Labels {
    let pairs = object.as_object().into_iter().flatten();
    let pairs = pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    pairs.collect()
}

/// podman (and what else uses containers/storage): a list for each storage driver, and one of what ends with the boot.
fn of_podman(host: &Path) -> Vec<EngineName> {
    let storages = [
        host.join("var/lib/containers/storage"),
        host.join("run/containers/storage"),
    ];
    let drivers = storages.iter().flat_map(|storage| entries(storage));
    let lists =
        drivers.filter(|path| file_name(path).is_some_and(|name| name.ends_with("-containers")));
    let lists = lists.flat_map(|driver| {
        ["containers.json", "volatile-containers.json"].map(|name| driver.join(name))
    });
    let containers = lists.filter_map(|list| match json(&list)? {
        Json::Array(containers) => Some(containers),
        _ => None,
    });
    let mut names = Vec::new();
    for container in containers.flatten() {
        let Some(id) = container["id"].as_str() else {
            continue;
        };
        let given = container["names"].as_array().into_iter().flatten();
        names.extend(given.filter_map(Json::as_str).map(|name| EngineName {
            engine: "podman",
            name: name.to_owned(),
            id: id.to_owned(),
        }));
    }
    names
}

/// docker: a folder for each container, whose name there begins with a slash.
fn of_docker(host: &Path) -> Vec<EngineName> {
    let folders = entries(&host.join("var/lib/docker/containers")).into_iter();
    let name = |folder: std::path::PathBuf| {
        let configuration = json(&folder.join("config.v2.json"))?;
        let name = configuration["Name"].as_str()?;
        Some(EngineName {
            engine: "docker",
            name: name.trim_start_matches('/').to_owned(),
            id: file_name(&folder)?.to_owned(),
        })
    };
    folders.filter_map(name).collect()
}

/// nerdctl: a file for each name, in a folder for each namespace of each address of containerd.
fn of_nerdctl(host: &Path) -> Vec<EngineName> {
    let addresses = entries(&host.join("var/lib/nerdctl")).into_iter();
    let namespaces = addresses.flat_map(|address| entries(&address.join("names")));
    let files = namespaces.flat_map(|namespace| entries(&namespace));
    let name = |file: std::path::PathBuf| {
        Some(EngineName {
            engine: "nerdctl",
            name: file_name(&file)?.to_owned(),
            id: text(&file).ok()?.trim().to_owned(),
        })
    };
    files
        .filter_map(name)
        .filter(|one| !one.id.is_empty())
        .collect()
}
