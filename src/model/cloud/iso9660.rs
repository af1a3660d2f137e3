//! As much of the CD file system as it takes to read one file of a cloud's config drive: mounting
//! it would need a kernel module that many machines do not have.

/// The bytes of one file, if the image has it; `read` gives so many bytes from an offset.
///
/// Names are compared as the standard stores them: without case, and without the version behind
/// the semicolon.
pub fn read_file(read: impl Fn(u64, usize) -> Option<Vec<u8>>, path: &str) -> Option<Vec<u8>> {
    let mut entry = root(&read(VOLUME_DESCRIPTOR, BLOCK)?)?;
    for name in path.split('/') {
        let folder = read(entry.offset(), entry.length.min(LONGEST_FOLDER))?;
        entry = find(&folder, name)?;
    }
    (entry.length <= LONGEST_FILE).then(|| read(entry.offset(), entry.length))?
}

const BLOCK: usize = 2048;

/// The first descriptor stands behind sixteen blocks that are the system's.
const VOLUME_DESCRIPTOR: u64 = 16 * BLOCK as u64;

/// Nothing that a cloud writes there is larger.
const LONGEST_FILE: usize = 1 << 20;
const LONGEST_FOLDER: usize = 1 << 20;

/// Where a file or folder stands.
struct DirectoryEntry {
    block: u32,
    length: usize,
}

impl DirectoryEntry {
    fn offset(&self) -> u64 {
        u64::from(self.block) * BLOCK as u64
    }

    /// A record of a folder; numbers stand there in both byte orders, the little one first.
    fn of(record: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u32::from_le_bytes(record.get(at..at + 4)?.try_into().ok()?));
        Some(Self { block: number(2)?, length: usize::try_from(number(10)?).ok()? })
    }
}

fn root(descriptor: &[u8]) -> Option<DirectoryEntry> {
    let is_primary = descriptor.get(..6)? == b"\x01CD001";
    if is_primary { DirectoryEntry::of(descriptor.get(156..190)?) } else { None }
}

fn find(folder: &[u8], wanted: &str) -> Option<DirectoryEntry> {
    let mut at = 0;
    while at < folder.len() {
        let length = usize::from(folder[at]);
        if length == 0 {
            // Records do not cross blocks: the rest of this one is empty.
            at = (at / BLOCK + 1) * BLOCK;
            continue;
        }
        let record = folder.get(at..at + length)?;
        let name_length = usize::from(*record.get(32)?);
        let name = String::from_utf8_lossy(record.get(33..33 + name_length)?);
        let bare = name.split(';').next().unwrap_or_default().trim_end_matches('.');
        if bare.eq_ignore_ascii_case(wanted) {
            return DirectoryEntry::of(record);
        }
        at += length;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &[u8], block: u32, length: u32) -> Vec<u8> {
        let mut record = vec![0; 33];
        record[2..6].copy_from_slice(&block.to_le_bytes());
        record[10..14].copy_from_slice(&length.to_le_bytes());
        record[32] = u8::try_from(name.len()).unwrap();
        record.extend_from_slice(name);
        record.resize(record.len().next_multiple_of(2), 0);
        record[0] = u8::try_from(record.len()).unwrap();
        record
    }

    fn image() -> Vec<u8> {
        let mut image = vec![0; 22 * BLOCK];
        let mut put = |block: usize, at: usize, bytes: &[u8]| {
            image[block * BLOCK + at..block * BLOCK + at + bytes.len()].copy_from_slice(bytes);
        };
        put(16, 0, b"\x01CD001");
        put(16, 156, &record(&[0], 18, 4096));
        put(18, 0, &record(&[0], 18, 4096));
        // In the folder's second block, behind the empty rest of the first.
        put(19, 0, &record(b"openstack", 20, 2048));
        put(20, 0, &record(b"META_DATA.JSON;1", 21, 5));
        put(21, 0, b"hello");
        image
    }

    fn read_from(image: &[u8]) -> impl Fn(u64, usize) -> Option<Vec<u8>> {
        |offset, length| {
            let offset = usize::try_from(offset).ok()?;
            image.get(offset..offset + length).map(<[u8]>::to_vec)
        }
    }

    #[test]
    fn a_file_is_found_by_its_path() {
        let image = image();
        let found = read_file(read_from(&image), "openstack/meta_data.json");
        assert_eq!(found.as_deref(), Some(&b"hello"[..]));
        assert_eq!(read_file(read_from(&image), "openstack/none"), None);
        assert_eq!(read_file(read_from(&image[..16 * BLOCK]), "openstack"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_image_makes_the_reader_panic(at in 16 * BLOCK..22 * BLOCK, bytes: [u8; 16]) {
            let mut image = image();
            let end = (at + 16).min(image.len());
            image[at..end].copy_from_slice(&bytes[..end - at]);
            let _ = read_file(read_from(&image), "openstack/meta_data.json");
        }
    }
}
