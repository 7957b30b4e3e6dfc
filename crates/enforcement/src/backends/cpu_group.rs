//! The group in which the cpu controller rules a domain's ordinary threads, in whichever cgroup hierarchy has it:
//! a group of ours, or the container's own.

use std::path::{Path, PathBuf};

use tailbound_linux::{HostCapabilities, capabilities::Feature};

use super::target::not_supported;
use super::{TargetMembers, lacking, legacy_group, own_group};
use crate::error::PlanError;
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
        let parent = own_group(root);
        let directory = parent.join(&request.domain);
        Ok(Self {
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
        })
    }
}
