//! What the kernel asks a FUSE file system of one file, and how it wants the answers:
//! `linux/fuse.h`, of which the file system says to know version 7.31.

/// The largest read or write that the kernel may ask for.
pub const LARGEST: u32 = 1 << 20;

/// A buffer for every request: a write of the largest size, and the headers before it.
pub const BUFFER: usize = LARGEST as usize + 4096;

/// One request.
#[derive(Debug)]
pub struct Request {
    /// Its number, which the answer repeats.
    pub number: u64,
    /// What is asked for.
    pub wish: Wish,
}

#[derive(Debug)]
pub enum Wish {
    /// The first request of all.
    Begin,
    Attributes,
    /// Other changes of attributes are taken and forgotten.
    Change {
        size: Option<u64>,
    },
    Open,
    Read {
        offset: u64,
        length: u32,
    },
    Write {
        offset: u64,
        bytes: Vec<u8>,
    },
    /// fallocate(2) with its mode.
    Allocate {
        offset: u64,
        length: u64,
        mode: i32,
    },
    Flush,
    Space,
    /// Wants nothing but an answer.
    Acknowledgement,
    /// Wants no answer.
    Nothing,
    /// Not known here.
    Other,
}

const HEADER: usize = 40;

impl Request {
    /// Reads a request as the kernel wrote it.
    pub fn parse(bytes: &[u8]) -> Self {
        let body = &bytes[HEADER..];
        let wish = match u32_at(bytes, 4) {
            2 | 36 | 42 => Wish::Nothing, // FORGET, INTERRUPT, BATCH_FORGET
            3 => Wish::Attributes,
            4 => Wish::Change { size: (u32_at(body, 0) & 8 != 0).then(|| u64_at(body, 16)) },
            14 => Wish::Open,
            15 => Wish::Read { offset: u64_at(body, 8), length: u32_at(body, 16) },
            16 => Wish::Write {
                offset: u64_at(body, 8),
                bytes: body[40..][..u32_at(body, 16) as usize].to_vec(),
            },
            17 => Wish::Space,
            18 | 25 | 38 => Wish::Acknowledgement, // RELEASE, FLUSH at each close, DESTROY
            20 => Wish::Flush,                     // FSYNC
            26 => Wish::Begin,
            43 => Wish::Allocate {
                offset: u64_at(body, 8),
                length: u64_at(body, 16),
                mode: u32_at(body, 24).cast_signed(),
            },
            _ => Wish::Other,
        };
        Self { number: u64_at(bytes, 8), wish }
    }
}

/// An answer as the kernel reads it.
pub fn answer(number: u64, content: Result<Vec<u8>, nix::errno::Errno>) -> Vec<u8> {
    let (content, error) = match content {
        Ok(content) => (content, 0),
        Err(errno) => (Vec::new(), -(errno as i32)),
    };
    let length = u32::try_from(16 + content.len()).expect("a short answer");
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(error.to_ne_bytes());
    bytes.extend(number.to_ne_bytes());
    bytes.extend(content);
    bytes
}

/// `fuse_init_out`
pub fn welcome() -> Vec<u8> {
    const BIG_WRITES: u32 = 1 << 5;
    const MAX_PAGES: u32 = 1 << 22;
    let pages = u16::try_from(LARGEST / 4096).expect("a few pages");
    let mut bytes = Vec::new();
    // Version, read-ahead, flags.
    for number in [7, 31, LARGEST, BIG_WRITES | MAX_PAGES] {
        bytes.extend(u32::to_ne_bytes(number));
    }
    // The kernel's own limits of requests in the background; then the largest write, and the
    // granularity of times.
    bytes.extend([0; 4]);
    bytes.extend(LARGEST.to_ne_bytes());
    bytes.extend(1u32.to_ne_bytes());
    bytes.extend(pages.to_ne_bytes());
    bytes.resize(64, 0);
    bytes
}

/// `fuse_attr_out` of a regular file, valid for no time.
pub fn attributes(size: u64) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    for number in [1, size, size.div_ceil(512)] {
        bytes.extend(u64::to_ne_bytes(number));
    }
    // Times, and their nanoseconds.
    bytes.extend([0; 36]);
    for number in [0o100_600, 1] {
        bytes.extend(u32::to_ne_bytes(number));
    }
    bytes.resize(104, 0);
    bytes
}

/// `fuse_open_out`: no cache of the kernel comes between.
pub fn opened() -> Vec<u8> {
    const DIRECT_IO: u32 = 1;
    let mut bytes = vec![0; 8];
    bytes.extend(DIRECT_IO.to_ne_bytes());
    bytes.resize(16, 0);
    bytes
}

/// `fuse_write_out`
pub fn written(count: u32) -> Vec<u8> {
    let mut bytes = count.to_ne_bytes().to_vec();
    bytes.resize(8, 0);
    bytes
}

/// `fuse_statfs_out`: nothing that is counted on.
pub fn space() -> Vec<u8> {
    vec![0; 80]
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
