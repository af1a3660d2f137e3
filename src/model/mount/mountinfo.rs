//! The kernel's mount table, read from the text of `/proc/PID/mountinfo`.
//!
//! One line of it, as proc(5) describes it:
//! `36 35 98:0 /root /target rw,noatime shared:1 master:2 - ext4 /dev/vdb rw,errors=continue`.
//! Blanks, tabs, newlines and backslashes in paths are written as three octal digits.

use crate::disk::device::DeviceNumber;
use crate::error::{Error, Kind, Result};
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The mount's id in its namespace.
    pub id: u32,
    /// The id of the mount that it stands on.
    pub parent: u32,
    /// The file system's device number.
    pub number: DeviceNumber,
    /// The number of its disk: another one only for file systems that have a number of their own
    /// (btrfs), and only where it was found out.
    pub disk: DeviceNumber,
    /// Which folder of the file system is mounted.
    pub root: PathBuf,
    /// Where it is mounted.
    pub target: PathBuf,
    /// The options of this mount alone, such as `ro`.
    pub options: String,
    /// The propagation fields, such as `shared:1`.
    pub propagation: String,
    /// The file system's type.
    pub fs_type: String,
    /// What was named as the source at mount time: a label, no proof of anything.
    pub source: String,
    /// The options of the file system as a whole.
    pub super_options: String,
}

impl Mount {
    /// Whether this mount refuses writes, whatever the file system says.
    pub fn is_read_only(&self) -> bool {
        has_option(&self.options, "ro")
    }

    /// Whether the file system as a whole refuses writes.
    pub fn is_super_read_only(&self) -> bool {
        has_option(&self.super_options, "ro")
    }
}

#[cfg(any(test, debug_assertions))]
#[allow(clippy::expect_used, clippy::missing_panics_doc, reason = "they are of tests")]
impl Mount {
    /// An ext4 of this number at a place, with these propagation fields, each with a blank behind it.
    pub fn of_a_test(number: &str, target: &str, propagation: &str) -> Self {
        let line = format!("40 30 {number} / {target} rw {propagation}- ext4 /dev/vdb rw\n");
        MountTable::parse(line.as_bytes()).expect("a line of a table").mounts()[0].clone()
    }
}

fn has_option(options: &str, wanted: &str) -> bool {
    options.split(',').any(|option| option == wanted)
}

/// One reading of a mount table. A copy shares its mounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountTable {
    mounts: Arc<Vec<Mount>>,
}

impl MountTable {
    /// Reads the kernel's text.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let mounts = lines.map(parse_line).collect::<Result<_>>()?;
        Ok(Self { mounts: Arc::new(mounts) })
    }

    /// All mounts.
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// The table without some of its mounts.
    #[must_use]
    pub fn without(mut self, is_left_out: impl Fn(&Mount) -> bool) -> Self {
        Arc::make_mut(&mut self.mounts).retain(|mount| !is_left_out(mount));
        self
    }

    /// All mounts, to add what the table does not say.
    pub fn mounts_mut(&mut self) -> &mut [Mount] {
        Arc::make_mut(&mut self.mounts).as_mut_slice()
    }

    /// Every mount at this very path, stacked ones included.
    pub fn at<'a, 'p>(&'a self, target: &'p Path) -> impl Iterator<Item = &'a Mount> + use<'a, 'p> {
        self.mounts.iter().filter(move |mount| mount.target == target)
    }

    /// The mount that a look-up of this path meets: of those stacked at the path the one that
    /// none of the others stands on.
    pub fn top_at(&self, target: &Path) -> Option<&Mount> {
        // The root of a namespace is written as standing on itself.
        let is_on = |mount: &Mount, other: &Mount| other.parent == mount.id && other.id != mount.id;
        self.at(target).find(|mount| !self.at(target).any(|other| is_on(mount, other)))
    }

    /// The same for each path at which something is mounted.
    pub fn tops(&self) -> HashMap<&Path, &Mount> {
        let mut stacks: HashMap<&Path, Vec<&Mount>> = HashMap::new();
        for mount in self.mounts.iter() {
            stacks.entry(&mount.target).or_default().push(mount);
        }
        let top = |stack: &[&'_ Mount]| {
            let has_one_on_it = |mount: &Mount| {
                stack.iter().any(|other| other.parent == mount.id && other.id != mount.id)
            };
            stack.iter().position(|mount| !has_one_on_it(mount))
        };
        let tops = stacks
            .into_iter()
            .filter_map(|(target, stack)| top(&stack).map(|at| (target, stack[at])));
        tops.collect()
    }

    /// The mount that a path without links leads to: down from the root, at each step into what
    /// is mounted there. In a plain chroot the root is no mount, and the table begins below it.
    pub fn covering(&self, path: &Path) -> Option<&Mount> {
        let mut found: Option<&Mount> = None;
        let mut place = PathBuf::new();
        for part in path {
            place.push(part);
            let Some(mut top) = found.map_or_else(|| self.top_at(&place), Some) else { continue };
            // A stack is no longer than the table; a torn one may run in a circle.
            for _ in 0..self.mounts.len() {
                let stands_on = |mount: &&Mount| mount.parent == top.id && mount.id != top.id;
                let mut there = self.mounts.iter().filter(|mount| mount.target == place);
                let Some(above) = there.find(stands_on) else { break };
                top = above;
            }
            found = Some(top);
        }
        found
    }

    /// All that stands on a mount, and on that, in the order in which it can be taken off.
    pub fn standing_on(&self, mount: &Mount) -> Vec<Mount> {
        let mut found: Vec<&Mount> = vec![mount];
        let mut next = 0;
        while let Some(below) = found.get(next).map(|below| below.id) {
            // The root of a namespace is written as standing on itself; a torn table may run in a
            // circle.
            let is_new = |one: &&Mount| one.parent == below && found.iter().all(|f| f.id != one.id);
            let on_it: Vec<&Mount> = self.mounts.iter().filter(is_new).collect();
            found.extend(on_it);
            next += 1;
        }
        found.into_iter().skip(1).rev().cloned().collect()
    }

    /// Every mount of a file system on this device.
    pub fn of(&self, number: DeviceNumber) -> impl Iterator<Item = &Mount> {
        self.mounts.iter().filter(move |mount| mount.number == number)
    }
}

impl FromIterator<Mount> for MountTable {
    /// Some lines of a table.
    fn from_iter<T: IntoIterator<Item = Mount>>(mounts: T) -> Self {
        Self { mounts: Arc::new(mounts.into_iter().collect()) }
    }
}

fn parse_line(line: &[u8]) -> Result<Mount> {
    let wrong = || {
        let text = String::from_utf8_lossy(line);
        Error::new(Kind::Host, format!("a line of the mount table cannot be read: {text:?}"))
    };
    let mut fields = line.split(|byte| *byte == b' ');
    let mut next = || fields.next().ok_or_else(wrong);
    let number_of =
        |field: &[u8]| String::from_utf8_lossy(field).parse::<u32>().map_err(|_| wrong());

    let id = number_of(next()?)?;
    let parent = number_of(next()?)?;
    let number = String::from_utf8_lossy(next()?).parse().map_err(|_| wrong())?;
    let root = path_of(next()?);
    let target = path_of(next()?);
    let options = text_of(next()?);
    let mut propagation = String::new();
    loop {
        let field = next()?;
        if field == b"-" {
            break;
        }
        if !propagation.is_empty() {
            propagation.push(' ');
        }
        propagation.push_str(&String::from_utf8_lossy(field));
    }
    let fs_type = text_of(next()?);
    // An empty source is written as an empty field by some file systems.
    let source = next()?;
    let source = if is_escaped(source) { text_of(&unescape(source)) } else { text_of(source) };
    let super_options = text_of(next()?);
    Ok(Mount {
        id,
        parent,
        number,
        disk: number,
        root,
        target,
        options,
        propagation,
        fs_type,
        source,
        super_options,
    })
}

fn text_of(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

fn path_of(field: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape(field)))
}

/// The mount that a descriptor was opened through, in what `/proc/PID/fdinfo` says about it. Nothing is
/// allocated: a child that was forked calls it too.
pub fn mount_of_descriptor(information: &[u8]) -> Option<u32> {
    let mut lines = information.split(|byte| *byte == b'\n');
    let id = lines.find_map(|line| line.strip_prefix(b"mnt_id:"))?;
    std::str::from_utf8(id).ok()?.trim().parse().ok()
}

/// Whether bytes of it may be written as digits.
fn is_escaped(field: &[u8]) -> bool {
    field.contains(&b'\\')
}

/// Turns `\040` and its like back into bytes; anything else stays as it is.
pub fn unescape(field: &[u8]) -> Vec<u8> {
    // Nearly all have nothing to be turned, and a machine has thousands of lines.
    if !is_escaped(field) {
        return field.to_vec();
    }
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        if let Some(decoded) = octal_escape(rest) {
            out.push(decoded);
            rest = &rest[4..];
        } else {
            out.push(byte);
            rest = after;
        }
    }
    out
}

fn octal_escape(text: &[u8]) -> Option<u8> {
    let [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] = text else { return None };
    Some(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
40 22 7:0 / /k/mounts/pv-1 rw,relatime - ext4 /dev/incloud-disk/v1 rw
41 22 7:0 /sub\\040dir /k/pods/a\\134b ro,relatime master:3 - ext4 /dev/incloud-disk/v1 rw
50 22 7:1 / /stack rw - xfs /dev/loop1 rw
51 50 7:2 / /stack rw - xfs /dev/loop2 ro
";

    #[test]
    fn a_table_is_read_and_looked_up() {
        let table = MountTable::parse(TABLE.as_bytes()).unwrap();
        assert_eq!(table.mounts().len(), 5);
        let pod = table.top_at(Path::new("/k/pods/a\\b")).unwrap();
        assert_eq!(pod.root, Path::new("/sub dir"));
        assert!(pod.is_read_only() && !pod.is_super_read_only());
        assert_eq!(pod.propagation, "master:3");
        assert_eq!(table.of("7:0".parse().unwrap()).count(), 2);
    }

    #[test]
    fn of_stacked_mounts_the_top_one_is_found_whatever_the_order() {
        let mut lines: Vec<_> = TABLE.lines().collect();
        for _ in 0..2 {
            let table = MountTable::parse(lines.join("\n").as_bytes()).unwrap();
            let top = table.top_at(Path::new("/stack")).unwrap();
            assert_eq!((top.id, top.is_super_read_only()), (51, true));
            let tops = table.tops();
            assert_eq!((tops.len(), tops[Path::new("/stack")].id), (4, 51));
            lines.reverse();
        }
    }

    #[test]
    fn a_path_leads_to_the_mount_that_a_look_up_meets() {
        // `/a/b` was covered when something was mounted at `/a` later.
        let text = "\
1 1 254:0 / / rw - ext4 d rw
2 1 7:0 / /a/b rw - ext4 d rw
3 1 7:1 / /a rw - ext4 d rw
4 3 7:2 / /a/c rw - ext4 d rw
5 4 7:3 / /a/c rw - ext4 d rw
";
        let table = MountTable::parse(text.as_bytes()).unwrap();
        for (path, id) in [
            ("/", 1),
            ("/x", 1),
            ("/ab", 1),
            ("/a", 3),
            ("/a/b/x", 3),
            ("/a/c", 5),
            ("/a/c/d/e", 5),
        ] {
            assert_eq!(table.covering(Path::new(path)).unwrap().id, id, "{path}");
        }
        let table = MountTable::parse(text.split_once('\n').unwrap().1.as_bytes()).unwrap();
        for (path, id) in [("/", None), ("/x", None), ("/a/b/x", Some(3)), ("/a/c/d", Some(5))] {
            let found = table.covering(Path::new(path)).map(|mount| mount.id);
            assert_eq!(found, id, "{path} where the root is no mount");
        }
        let circle = "1 2 7:0 / / rw - e d rw\n2 1 7:0 / / rw - e d rw\n3 4 7:0 / /a rw - e d rw\n";
        let _ = MountTable::parse(circle.as_bytes()).unwrap().covering(Path::new("/a"));
    }

    #[test]
    fn torn_lines_are_errors_and_not_guesses() {
        for line in ["1", "1 2 7:0 / /x rw", "1 2 7:0 / /x rw shared:1", "a b 7:0 / /x rw - e s r"]
        {
            assert!(MountTable::parse(line.as_bytes()).is_err(), "{line:?}");
        }
        assert!(MountTable::parse(b"").unwrap().mounts().is_empty());
    }

    #[test]
    fn a_descriptor_names_its_mount() {
        let text = b"pos:\t0\nflags:\t012000000\nmnt_id:\t29\nino:\t2\n";
        assert_eq!(mount_of_descriptor(text), Some(29));
        for other in [&b""[..], b"pos:\t0\n", b"mnt_id:\t\n", b"mnt_id:\t-1\n", b"mnt_id:\t\xff\n"]
        {
            assert_eq!(mount_of_descriptor(other), None, "{other:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in proptest::collection::vec(0u8.., 0..300)) {
            let _ = MountTable::parse(&text);
        }

        #[test]
        fn escaped_paths_come_back(name in "[a-z \\t\\n\\\\]{1,20}") {
            let escaped: String = name.bytes().fold(String::new(), |text, b| text + &format!("\\{b:03o}"));
            let line = format!("1 2 7:0 / /{escaped} rw - ext4 s rw");
            let table = MountTable::parse(line.as_bytes()).unwrap();
            let expected = format!("/{name}");
            proptest::prop_assert_eq!(&table.mounts()[0].target, Path::new(&expected));
        }
    }
}
