//! What a runtime of containers sends to its plugin.

use tailbound_nri::{Plugin, PluginSession, PodSandbox, Rejection, RuntimeContainer};

use crate::stream::parts;

/// What a plugin was asked, and refuses.
#[derive(Debug, Default, PartialEq)]
struct AskedPlugin(Vec<String>);

impl Plugin for AskedPlugin {
    fn synchronize(&mut self, containers: &[(PodSandbox, RuntimeContainer)]) {
        self.0.push(format!("{containers:?}"));
    }

    fn start(&mut self, pod: &PodSandbox, container: &RuntimeContainer) -> Result<(), Rejection> {
        self.0.push(format!("{pod:?} {container:?}"));
        match container.annotations.is_empty() {
            true => Ok(()),
            false => Err(Rejection(container.name.clone())),
        }
    }

    fn stop(&mut self, pod: &PodSandbox, container: &RuntimeContainer) {
        self.0.push(format!("{pod:?} {container:?}"));
    }
}

/// However the bytes come apart, the plugin is asked the same, and the runtime gets the same answers.
pub fn check(bytes: &[u8]) {
    let Some((&count, rest)) = bytes.split_first() else {
        return;
    };
    let (sizes, bytes) = rest.split_at(usize::from(count % 8).min(rest.len()));
    let whole = answers(&[bytes]);
    let in_parts = answers(&parts(bytes, sizes));
    assert_eq!(in_parts.0, whole.0);
    assert_eq!(in_parts.1.is_err(), whole.1.is_err());
    if let (Ok(in_parts), Ok(whole)) = (in_parts.1, whole.1) {
        assert_eq!(in_parts, whole);
    }
}

fn answers(parts: &[&[u8]]) -> (AskedPlugin, Result<Vec<u8>, String>) {
    let (mut session, _) = PluginSession::begin("fuzz", "00");
    let mut plugin = AskedPlugin::default();
    let mut sent = Vec::new();
    for part in parts {
        match session.receive(part, &mut plugin) {
            Ok(answers) => sent.extend(answers),
            Err(error) => return (plugin, Err(error.to_string())),
        }
    }
    (plugin, Ok(sent))
}
