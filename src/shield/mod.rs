//! The shield: a volume is mounted through a map of device mapper, in which input and output wait while the disk is
//! away. `docs/rules/own-maps.md` has its rules.

pub mod all_waits;
mod covering;
#[cfg(test)]
#[path = "../driver/fakes/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the driver's tests use the others")]
mod fakes;
mod own_maps;
mod returned_disk;
mod superblocks;
#[cfg(test)]
mod tests;

use incloud_disk_driver as driver;
#[cfg(test)]
use incloud_disk_driver::{Host, Policy, Store, attachment, call_counts, shield};
#[cfg(test)]
use incloud_disk_host as host;
use incloud_disk_model as model;
use incloud_disk_ports as ports;

use crate::driver::Context;
use crate::driver::mount::stage::StageOptions;
use crate::driver::shield::{MapOverDisk, Returned, Shield};
use crate::model::disk::contents::FileSystem;
use crate::model::disk::device::Device;
use crate::model::disk::journal::sights::JournalMark;
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::model::shield::own_map::OwnMap;
use crate::ports::host::Maps;

/// The shield of a machine that has device mapper.
#[expect(missing_debug_implementations, reason = "it borrows a port")]
pub struct MapShield<'a> {
    pub maps: &'a dyn Maps,
}

impl Shield for MapShield<'_> {
    fn map_of(&self, id: &VolumeId) -> Result<Option<OwnMap>> {
        self.maps.map_of(id)
    }

    fn volumes(&self) -> Result<Vec<VolumeId>> {
        self.maps.volumes()
    }

    fn tidy(&self, cx: &Context<'_>, id: &VolumeId) {
        own_maps::tidy(self.maps, cx, id);
    }

    fn before_mount(
        &self,
        cx: &Context<'_>,
        id: &VolumeId,
        disk: &Device,
        found: &FileSystem,
        options: &StageOptions,
    ) -> Result<Option<MapOverDisk>> {
        covering::cover(self.maps, cx, id, disk, found, options)
    }

    fn after_mount(
        &self,
        cx: &Context<'_>,
        id: &VolumeId,
        covered: &MapOverDisk,
    ) -> Option<JournalMark> {
        covering::journal(self.maps, cx, id, covered)
    }

    fn mount_found(&self, cx: &Context<'_>, id: &VolumeId, disk: &Device) {
        covering::note_found(self.maps, cx, id, disk);
    }

    fn disk_returned(&self, cx: &Context<'_>, id: &VolumeId) -> Returned {
        returned_disk::look_after(self.maps, cx, id)
    }

    fn tend(&self, cx: &Context<'_>, id: &VolumeId) {
        returned_disk::note_superblock(self.maps, cx, id);
    }

    fn tend_hanging(&self, cx: &Context<'_>, id: &VolumeId) {
        returned_disk::keep_time(self.maps, cx, id);
    }

    fn before_unmount(&self, cx: &Context<'_>, id: &VolumeId) -> Result<()> {
        returned_disk::must_not_wait(self.maps, cx, id)
    }

    fn take_off(&self, cx: &Context<'_>, id: &VolumeId) -> Result<()> {
        own_maps::take_off(self.maps, cx, id)
    }

    fn end_wait(&self, id: &VolumeId) -> Result<()> {
        own_maps::end_wait(self.maps, id)
    }
}
