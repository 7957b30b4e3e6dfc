//! The group in which the cpu controller rules a domain's ordinary threads, in whichever cgroup hierarchy has it:
//! a group of ours, or the container's own.
//!
//! A group of ours in cgroup v2 never takes processes out of a unit or container that is stopped, limited or counted as
//! a whole. It is made below the unit's group where systemd leaves that to its processes (`Delegate=`) and all of them
//! are members; a group of the kernel's has either processes or groups with controllers. Else the request is refused.

use std::path::{Path, PathBuf};

use tailbound_linux::named_cgroup::{is_of_login, unit_holding};
use tailbound_linux::{HostCapabilities, capabilities::Feature};

use super::target::not_supported;
use super::{TargetMembers, lacking, legacy_group, own_group};
use crate::error::PlanError;
use crate::kernel::KernelView;
use crate::{Change, MissingRequirement, ReservationRequest, Site};

/// Where a domain is ruled, and how it gets there.
pub(super) struct CpuGroup {
    /// The group.
    pub directory: PathBuf,
    /// Whether it is in cgroup v1, whose control files have other names.
    pub legacy: bool,
    /// Whether it is the container's own, with settings of its own.
    pub is_their_own: bool,
    /// The changes that make it.
    pub changes: Vec<Change>,
    /// The moves of the members into it, once its settings are made.
    pub moves: Vec<Change>,
}

impl CpuGroup {
    /// The requirements that the host lacks for it.
    pub fn missing(host: &HostCapabilities) -> Vec<MissingRequirement> {
        if host.has(Feature::CpuV2) {
            return Vec::new();
        }
        let needed = "the cpu controller in cgroup v1 or v2";
        lacking(host, Feature::QuotaV1, needed)
            .into_iter()
            .collect()
    }

    /// The group for the members of a request.
    pub fn of(
        request: &ReservationRequest,
        members: &TargetMembers,
        site: Site<'_>,
    ) -> Result<Self, PlanError> {
        let host = site.host;
        let v1_root = host.cgroup_v1_roots.get("cpu");
        let v1_root = v1_root.filter(|_| host.has(Feature::QuotaV1));
        match (v1_root, host.cgroup_v2_root.as_deref()) {
            (Some(root), _) => Self::in_v1(request, root, members, site),
            (None, Some(root)) => Self::in_v2(request, root, members, site),
            (None, None) => Err(not_supported(
                request,
                "finds no cgroup hierarchy with the cpu controller",
                "see tailbound doctor",
            )),
        }
    }

    fn in_v1(
        request: &ReservationRequest,
        root: &Path,
        members: &TargetMembers,
        site: Site<'_>,
    ) -> Result<Self, PlanError> {
        let single = request.target.single_threads().is_some();
        if !single {
            members.check_unsplit(request, root, site.view)?;
        }
        let directory = legacy_group(root, &request.domain);
        Ok(Self {
            changes: vec![Change::mkdir(&directory)],
            moves: members.moves(single, &directory),
            directory,
            legacy: true,
            is_their_own: false,
        })
    }

    /// The group in cgroup v2, whichever hierarchy the host's quotas are in.
    pub fn in_v2(
        request: &ReservationRequest,
        root: &Path,
        members: &TargetMembers,
        site: Site<'_>,
    ) -> Result<Self, PlanError> {
        if let Some(cgroup) = members.cgroup.clone() {
            return Ok(Self {
                directory: cgroup,
                legacy: false,
                is_their_own: true,
                changes: Vec::new(),
                moves: Vec::new(),
            });
        }
        if request.target.single_threads().is_some() {
            return Err(not_supported(
                request,
                "rules whole processes in cgroup v2",
                "name the process, or use ds-freeze",
            ));
        }
        members.check_unsplit(request, root, site.view)?;
        let homes = members.homes(&request.domain, root, site.view);
        match homes.iter().find(|home| !may_be_left(home, root)) {
            None => Ok(Self::at_root(request, root, members)),
            Some(home) if homes.len() == 1 && is_theirs_alone(home, members, site.view) => {
                Ok(Self::below_home(request, home, members))
            }
            Some(home) => Err(out_of_unit(request, home, root)),
        }
    }

    /// The group of our own at the root, for processes of no unit and no container.
    fn at_root(request: &ReservationRequest, root: &Path, members: &TargetMembers) -> Self {
        let parent = own_group(root);
        let directory = parent.join(&request.domain);
        Self {
            changes: vec![
                Change::write(root, "cgroup.subtree_control", "+cpu"),
                Change::mkdir(&parent),
                Change::write(&parent, "cgroup.subtree_control", "+cpu"),
                Change::mkdir(&directory),
            ],
            moves: members.moves(false, &directory),
            directory,
            legacy: false,
            is_their_own: false,
        }
    }

    /// The group of our own below that of the members, which gives controllers only once it has no members itself.
    fn below_home(request: &ReservationRequest, home: &Path, members: &TargetMembers) -> Self {
        let parent = own_group(home);
        let directory = parent.join(&request.domain);
        let mut changes = vec![Change::mkdir(&parent), Change::mkdir(&directory)];
        changes.extend(members.moves(false, &directory));
        changes.push(Change::write(home, "cgroup.subtree_control", "+cpu"));
        changes.push(Change::write(&parent, "cgroup.subtree_control", "+cpu"));
        Self {
            directory,
            legacy: false,
            is_their_own: false,
            changes,
            moves: Vec::new(),
        }
    }
}

/// Whether nobody misses processes that leave a group: at the root or in one of ours there is no unit that is stopped or
/// limited as a whole, and processes of a login leave it as those of `systemd-run --scope` do.
fn may_be_left(home: &Path, root: &Path) -> bool {
    let below = home.strip_prefix(root).unwrap_or(home);
    home == root || home.starts_with(own_group(root)) || is_of_login(below)
}

/// Whether groups may be made in a group, and it has nobody but the members and no groups but ours.
fn is_theirs_alone(home: &Path, members: &TargetMembers, view: &dyn KernelView) -> bool {
    let is_member = |pid: &u32| members.processes.contains(pid);
    let inside = view.processes_in(home);
    let below = view.cgroups_below(home);
    view.is_delegated(home)
        && inside.is_ok_and(|inside| inside.iter().all(is_member))
        && below.is_ok_and(|below| below.iter().all(|group| *group == own_group(home)))
}

/// The refusal to take processes out of a unit or container.
fn out_of_unit(request: &ReservationRequest, home: &Path, root: &Path) -> PlanError {
    let below = home.strip_prefix(root).unwrap_or(home);
    let unit = unit_holding(below).filter(|unit| below.ends_with(unit));
    let (home, whole) = match unit {
        Some(unit) => (
            unit.to_owned(),
            format!(
                "tailbound apply --unit {unit}, or unit = \"{unit}\" in place of the processes"
            ),
        ),
        None => (
            format!("the cgroup {}", below.display()),
            format!("cgroup = \"{}\" in place of the processes", below.display()),
        ),
    };
    not_supported(
        request,
        format!(
            "would take processes out of {home}, whose end, limits and accounting would not reach them any more"
        ),
        format!("reserve all of it ({whole}), or use ds-freeze"),
    )
}
