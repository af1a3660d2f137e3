//! Requests to the block service.

use super::http::Method;
use super::services::{Ask, Service, Services, Version, refused};
use super::wire::{CinderVolume, StoredAttachment, VolumesBody};
use crate::model::error::Result;
use crate::model::text::percent_encoded;
use crate::ports::clock::Deadline;
use serde_json::json;
use std::collections::BTreeMap;

/// `volume 3.42` grows a volume that is attached; below, only one that is not.
const EXTEND_ATTACHED: Version =
    Version::Needed("volume 3.42", "growing a volume while it is attached");

/// Below `volume 3.27` there is no such list.
const ATTACHMENTS: Version = Version::Needed("volume 3.27", "a list of attachments");

/// An error if the volume's attachments are another one's.
fn is_whole(volume: &CinderVolume) -> Result<()> {
    let mut of = volume.attachments.iter().filter_map(|one| one.volume_id.as_deref());
    of.try_for_each(|other| Service::Volume.answers_about("volume", &volume.id, other))
}

impl Services {
    pub(super) fn volume(&self, id: &str, deadline: Deadline) -> Result<Option<CinderVolume>> {
        let path = format!("/volumes/{id}");
        let member = (path.as_str(), "volume");
        let found: Option<CinderVolume> =
            self.get(Service::Volume, member, Version::Any, deadline)?;
        if let Some(volume) = &found {
            Service::Volume.answers_about("volume", id, &volume.id)?;
            is_whole(volume)?;
        }
        Ok(found)
    }

    /// Volumes with this name record in their metadata.
    pub(super) fn volumes_with(
        &self,
        key: &str,
        value: &str,
        deadline: Deadline,
    ) -> Result<Vec<CinderVolume>> {
        let filter = json!({key: value}).to_string().replace('"', "'");
        let path = format!("/volumes/detail?metadata={}", percent_encoded(&filter));
        let is_ours = |v: &CinderVolume| v.metadata.get(key).is_some_and(|v| v == value);
        self.volumes_where(&path, is_ours, deadline)
    }

    /// Volumes that people gave this name.
    pub(super) fn volumes_called(
        &self,
        name: &str,
        deadline: Deadline,
    ) -> Result<Vec<CinderVolume>> {
        let path = format!("/volumes/detail?name={}", percent_encoded(name));
        self.volumes_where(&path, |volume| volume.name.as_deref() == Some(name), deadline)
    }

    /// A service that does not know the filter of the path would list every volume.
    fn volumes_where(
        &self,
        path: &str,
        is_meant: impl Fn(&CinderVolume) -> bool,
        deadline: Deadline,
    ) -> Result<Vec<CinderVolume>> {
        let all = self.pages(Service::Volume, path, deadline, |body: VolumesBody| {
            (body.volumes, body.volumes_links)
        })?;
        let ours = all.into_iter().filter(is_meant);
        ours.map(|volume| is_whole(&volume).map(|()| volume)).collect()
    }

    pub(super) fn set_metadata(
        &self,
        id: &str,
        pairs: &BTreeMap<String, String>,
        deadline: Deadline,
    ) -> Result<()> {
        let path = &format!("/volumes/{id}/metadata");
        let body = Some(&json!({"metadata": pairs}));
        let (service, version) = (Service::Volume, Version::Any);
        let ask = Ask { service, method: Method::POST, path, version, body };
        let answer = self.send(&ask, deadline)?;
        match answer.status {
            200..=204 => Ok(()),
            _ => Err(refused(Service::Volume, &answer)),
        }
    }

    pub(super) fn remove_metadata(&self, id: &str, key: &str, deadline: Deadline) -> Result<()> {
        let path = &format!("/volumes/{id}/metadata/{key}");
        let (service, version) = (Service::Volume, Version::Any);
        let ask = Ask { service, method: Method::DELETE, path, version, body: None };
        let answer = self.send(&ask, deadline)?;
        match answer.status {
            200..=204 | 404 => Ok(()),
            _ => Err(refused(Service::Volume, &answer)),
        }
    }

    pub(super) fn extend(&self, id: &str, gib: u64, deadline: Deadline) -> Result<()> {
        let path = format!("/volumes/{id}/action");
        let body = json!({"os-extend": {"new_size": gib}});
        let ask = Ask {
            service: Service::Volume,
            method: Method::POST,
            path: &path,
            version: EXTEND_ATTACHED,
            body: Some(&body),
        };
        let answer = self.send(&ask, deadline)?;
        match answer.status {
            202 => Ok(()),
            413 => Err(refused(Service::Volume, &answer).hint("the project's quota is used up")),
            _ => Err(refused(Service::Volume, &answer)),
        }
    }

    /// Who holds the volume, reservations included: those are not listed with the volume itself.
    pub(super) fn stored_attachments_of(
        &self,
        id: &str,
        deadline: Deadline,
    ) -> Result<Vec<StoredAttachment>> {
        let path = format!("/attachments?volume_id={}", percent_encoded(id));
        let member = (path.as_str(), "attachments");
        let all: Option<Vec<StoredAttachment>> =
            self.get(Service::Volume, member, ATTACHMENTS, deadline)?;
        let all = all.unwrap_or_default();
        // A service that does not know the filter would list every attachment.
        Ok(all.into_iter().filter(|one| one.volume_id == id).collect())
    }

    /// Removes an attachment behind the compute service's back: right only when that service does
    /// not know of it.
    pub(super) fn drop_attachment(&self, attachment: &str, deadline: Deadline) -> Result<()> {
        let ask = Ask {
            service: Service::Volume,
            method: Method::DELETE,
            path: &format!("/attachments/{}", percent_encoded(attachment)),
            version: ATTACHMENTS,
            body: None,
        };
        let answer = self.send(&ask, deadline)?;
        match answer.status {
            200..=204 | 404 => Ok(()),
            _ => Err(refused(Service::Volume, &answer)),
        }
    }
}
