//! Memory for reads past the page cache: it begins where the kernel wants such reads to begin.

/// What the memory of such a read, and its offset, must be a multiple of.
pub(crate) const ALIGNMENT: usize = 4096;

/// Memory that is used for one read after the other.
#[derive(Debug, Default)]
pub(crate) struct AlignedMemory {
    room: Vec<u8>,
}

impl AlignedMemory {
    /// So many bytes of it, with whatever stood there.
    pub(crate) fn bytes(&mut self, length: usize) -> &mut [u8] {
        if self.room.len() < length + ALIGNMENT {
            self.room = vec![0; length + ALIGNMENT];
        }
        let begin = self.room.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        &mut self.room[begin..begin + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_at_a_multiple_whatever_is_asked_for() {
        let mut memory = AlignedMemory::default();
        for length in [1, 4096, 512, 70_000, 0] {
            let bytes = memory.bytes(length);
            assert_eq!((bytes.len(), bytes.as_ptr() as usize % ALIGNMENT), (length, 0));
        }
    }
}
