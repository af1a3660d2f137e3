//! What a cloud answers.

use crate::text_of;
use incloud_disk::cloud::openstack;
use incloud_disk::model::cloud::gcfg;

pub fn replies(bytes: &[u8]) {
    let text = text_of(bytes);
    openstack::garbage::answer(text);
    let _ = gcfg::boolean(Some(text));
}
