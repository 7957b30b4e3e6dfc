//! The isolation of a domain's programs in space: what is made before they start, and removed after they have ended.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration as Pause;

use tailbound_linux::isolation::{IsolatedProcesses, PRIVATE_FOLDERS, missing_privilege};
use tailbound_linux::memory_group::MemoryGroup;
use tailbound_model::{Domain, IsolatedNamespace, MemorySize};

use crate::ExperimentError;
use crate::programs::Surroundings;

/// How often it is looked whether a program has been started in its namespaces.
const LOOK_EVERY: Pause = Pause::from_millis(2);

/// The isolation of the programs of one domain.
#[derive(Debug)]
pub(crate) struct DomainIsolation {
    namespaces: BTreeSet<IsolatedNamespace>,
    memory: Option<(MemoryGroup, MemorySize)>,
    surroundings: Surroundings,
}

impl DomainIsolation {
    /// Makes the group whose memory is limited, if a domain has one; `None` for a domain that is not isolated.
    ///
    /// # Errors
    /// The privilege, or what the kernel needs, is not there.
    pub fn prepare(
        name: &str,
        domain: &Domain,
        surroundings: &Surroundings,
    ) -> Result<Option<Self>, ExperimentError> {
        let Some(isolation) = &domain.isolation else {
            return Ok(None);
        };
        let refused = |what: String, remedy: &str| ExperimentError::Domain {
            domain: name.into(),
            what,
            remedy: remedy.into(),
        };
        if let Some(privilege) = missing_privilege() {
            return Err(refused(
                format!("its isolation takes {privilege}, which this process lacks"),
                "run as root, or leave `isolation` out",
            ));
        }
        if isolation.has(IsolatedNamespace::Mount) {
            let own = [&surroundings.base, &surroundings.out];
            let shared = own.into_iter().find(|folder| is_private_as_a_whole(folder));
            if let Some(shared) = shared {
                return Err(refused(
                    format!(
                        "{} is to be empty to it, and has the description or the results",
                        shared.display()
                    ),
                    "move them to a folder of their own",
                ));
            }
        }
        let memory = isolation.memory_limit.map(|limit| {
            let group = MemoryGroup::make(name, limit.bytes());
            let group = group.map_err(|error| {
                refused(
                    format!("its memory cannot be limited to {limit}: {error}"),
                    "see tailbound doctor, or leave `memory_limit` out",
                )
            })?;
            Ok::<_, ExperimentError>((group, limit))
        });
        Ok(Some(Self {
            namespaces: isolation.namespaces.clone(),
            memory: memory.transpose()?,
            surroundings: surroundings.clone(),
        }))
    }

    /// The words that start a command in isolation.
    pub fn command_line(&self, words: &[String]) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        let own = text(&self.surroundings.executable);
        let mut line = vec![own, "internal".into(), "isolated".into()];
        let names = self.namespaces.iter().map(|one| one.name());
        let names: Vec<&str> = names.collect();
        if !names.is_empty() {
            line.extend(["--namespaces".into(), names.join(",")]);
        }
        if let Some((group, limit)) = &self.memory {
            line.extend(["--memory-group".into(), text(group.directory())]);
            line.extend(["--memory-limit-bytes".into(), limit.bytes().to_string()]);
        }
        for path in self.kept(words) {
            line.extend(["--keep".into(), text(&path)]);
        }
        line.push("--".into());
        line.extend(words.iter().cloned());
        line
    }

    /// The folders that programs need, wherever they are.
    fn kept(&self, words: &[String]) -> Vec<PathBuf> {
        let Surroundings {
            file,
            base,
            out,
            executable,
        } = &self.surroundings;
        let program = words.first().map(PathBuf::from);
        let program = program.filter(|program| program.is_absolute());
        let own = [file, base, out, executable].map(Clone::clone);
        let all = own.into_iter().chain(program);
        all.filter(|path| path.exists()).collect()
    }

    /// The processes of a program whose supervisor is `child`, once it is started; `None` if that one has ended before.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn await_program(&self, child: &mut Child) -> std::io::Result<Option<IsolatedProcesses>> {
        let has_pid = self.namespaces.contains(&IsolatedNamespace::Pid);
        loop {
            if let Some(processes) = IsolatedProcesses::under(child.id(), has_pid)? {
                return Ok(Some(processes));
            }
            if child.try_wait()?.is_some() {
                return Ok(None);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Ends what the programs have left.
    pub fn end(self) {
        if let Some((group, _)) = self.memory {
            // A group whose processes do not end is removed by the next run.
            let _left = group.remove();
        }
    }
}

/// Whether a folder is one that is empty to an isolated program.
fn is_private_as_a_whole(folder: &Path) -> bool {
    let folder = folder.canonicalize();
    folder.is_ok_and(|folder| PRIVATE_FOLDERS.iter().any(|one| folder == Path::new(one)))
}
