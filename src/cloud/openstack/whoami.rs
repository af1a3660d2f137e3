//! Which server this machine is: ids that the machine itself shows. Each is only a candidate; the
//! cloud must confirm it.

use crate::model::ids::{ServerId, is_uuid};
use std::path::Path;

/// What the hypervisor shows as the machine's id; Nova sets it to the server's. Root only.
const DMI: &str = "/sys/class/dmi/id/product_uuid";

/// What cloud-init noted at the first boot. With the EC2 source it is no UUID, and then no help;
/// in an image made of a live disk it is another machine's, which the cloud will tell.
const CLOUD_INIT: &str = "/var/lib/cloud/data/instance-id";

/// The ids, the likeliest first.
pub(super) fn candidates() -> Vec<ServerId> {
    let texts =
        [DMI, CLOUD_INIT].map(|path| std::fs::read_to_string(Path::new(path)).unwrap_or_default());
    from_texts(&texts[0], &texts[1])
}

fn from_texts(dmi: &str, cloud_init: &str) -> Vec<ServerId> {
    // Kernels before 4.15 show capitals, and firmware and kernel do not always agree on the byte
    // order of the first three fields.
    let dmi = dmi.trim().to_lowercase();
    let forms = [Some(dmi.clone()), swapped(&dmi), Some(cloud_init.trim().to_lowercase())];
    let mut found: Vec<ServerId> = Vec::new();
    for text in forms.into_iter().flatten().filter(|text| is_uuid(text)) {
        if let Ok(id) = ServerId::parse(&text)
            && !found.contains(&id)
        {
            found.push(id);
        }
    }
    found
}

/// The same id with the bytes of its first three fields the other way round.
fn swapped(uuid: &str) -> Option<String> {
    if !is_uuid(uuid) {
        return None;
    }
    let reversed = |field: &str| -> String {
        let bytes: Vec<&str> = (0..field.len()).step_by(2).map(|at| &field[at..at + 2]).collect();
        bytes.into_iter().rev().collect()
    };
    Some(
        [&reversed(&uuid[..8]), &reversed(&uuid[9..13]), &reversed(&uuid[14..18]), &uuid[19..]]
            .join("-"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_byte_orders_and_small_letters_are_tried() {
        let found = from_texts("00112233-4455-6677-8899-AABBCCDDEEFF\n", "i-0000abcd");
        let found: Vec<_> = found.iter().map(ServerId::as_str).collect();
        assert_eq!(
            found,
            ["00112233-4455-6677-8899-aabbccddeeff", "33221100-5544-7766-8899-aabbccddeeff"]
        );
        assert_eq!(from_texts("", "").len(), 0);
        assert_eq!(from_texts("Not Settable", "33221100-5544-7766-8899-aabbccddeeff").len(), 1);
    }
}
