//! A Xen in memory: one pool of two CPUs.

use std::io;

use tailbound_linux::xen::{Vcpu, VcpuSetting, XenPool};

pub(super) fn pools() -> Vec<XenPool> {
    vec![XenPool {
        name: "Pool-0".into(),
        cpus: 2,
        scheduler: "rtds".into(),
    }]
}

pub(super) fn set(
    vcpus: &mut [Vcpu],
    domain: u32,
    vcpu: u32,
    setting: VcpuSetting,
) -> io::Result<()> {
    let vcpu_entry = vcpus
        .iter_mut()
        .find(|one| (one.id, one.vcpu) == (domain, vcpu));
    vcpu_entry.ok_or(io::ErrorKind::NotFound)?.setting = setting;
    Ok(())
}
