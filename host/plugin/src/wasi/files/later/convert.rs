//! Converts the types of `wasi:filesystem` between WASI 0.2 and WASI 0.3, which are nearly equal.

use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::types as p2;
use wasmtime_wasi::p3::bindings::clocks::system_clock::Instant;
use wasmtime_wasi::p3::bindings::filesystem::types as p3;

/// Converts a guest's arguments.
pub(super) mod earlier {
    use super::{Datetime, p2, p3};

    pub(in super::super) fn path_flags(flags: p3::PathFlags) -> p2::PathFlags {
        if flags.contains(p3::PathFlags::SYMLINK_FOLLOW) {
            p2::PathFlags::SYMLINK_FOLLOW
        } else {
            p2::PathFlags::empty()
        }
    }

    pub(in super::super) fn open_flags(flags: p3::OpenFlags) -> p2::OpenFlags {
        let pairs = [
            (p3::OpenFlags::CREATE, p2::OpenFlags::CREATE),
            (p3::OpenFlags::DIRECTORY, p2::OpenFlags::DIRECTORY),
            (p3::OpenFlags::EXCLUSIVE, p2::OpenFlags::EXCLUSIVE),
            (p3::OpenFlags::TRUNCATE, p2::OpenFlags::TRUNCATE),
        ];
        let set = pairs.into_iter().filter(|(flag, _)| flags.contains(*flag));
        set.fold(p2::OpenFlags::empty(), |all, (_, flag)| all | flag)
    }

    pub(in super::super) fn descriptor_flags(flags: p3::DescriptorFlags) -> p2::DescriptorFlags {
        let set = super::DESCRIPTOR_FLAGS.iter().filter(|(_, flag)| flags.contains(*flag));
        set.fold(p2::DescriptorFlags::empty(), |all, (flag, _)| all | *flag)
    }

    pub(in super::super) fn advice(advice: p3::Advice) -> p2::Advice {
        match advice {
            p3::Advice::Normal => p2::Advice::Normal,
            p3::Advice::Sequential => p2::Advice::Sequential,
            p3::Advice::Random => p2::Advice::Random,
            p3::Advice::WillNeed => p2::Advice::WillNeed,
            p3::Advice::DontNeed => p2::Advice::DontNeed,
            p3::Advice::NoReuse => p2::Advice::NoReuse,
        }
    }

    /// Returns a time; WASI 0.2 has none before 1970.
    pub(in super::super) fn new_timestamp(time: p3::NewTimestamp) -> Result<p2::NewTimestamp, p3::ErrorCode> {
        Ok(match time {
            p3::NewTimestamp::NoChange => p2::NewTimestamp::NoChange,
            p3::NewTimestamp::Now => p2::NewTimestamp::Now,
            p3::NewTimestamp::Timestamp(time) => {
                let seconds = u64::try_from(time.seconds).map_err(|_| p3::ErrorCode::Overflow)?;
                p2::NewTimestamp::Timestamp(Datetime { seconds, nanoseconds: time.nanoseconds })
            }
        })
    }
}

/// Converts a guest's results.
pub(super) mod later {
    use super::{Datetime, Instant, p2, p3};

    pub(in super::super) fn descriptor_flags(flags: p2::DescriptorFlags) -> p3::DescriptorFlags {
        let set = super::DESCRIPTOR_FLAGS.iter().filter(|(flag, _)| flags.contains(*flag));
        set.fold(p3::DescriptorFlags::empty(), |all, (_, flag)| all | *flag)
    }

    pub(in super::super) fn descriptor_type(kind: p2::DescriptorType) -> p3::DescriptorType {
        match kind {
            p2::DescriptorType::Unknown => p3::DescriptorType::Other(None),
            p2::DescriptorType::BlockDevice => p3::DescriptorType::BlockDevice,
            p2::DescriptorType::CharacterDevice => p3::DescriptorType::CharacterDevice,
            p2::DescriptorType::Directory => p3::DescriptorType::Directory,
            p2::DescriptorType::Fifo => p3::DescriptorType::Fifo,
            p2::DescriptorType::SymbolicLink => p3::DescriptorType::SymbolicLink,
            p2::DescriptorType::RegularFile => p3::DescriptorType::RegularFile,
            p2::DescriptorType::Socket => p3::DescriptorType::Socket,
        }
    }

    pub(in super::super) fn stat(stat: p2::DescriptorStat) -> p3::DescriptorStat {
        p3::DescriptorStat {
            type_: descriptor_type(stat.type_),
            link_count: stat.link_count,
            size: stat.size,
            data_access_timestamp: stat.data_access_timestamp.map(instant),
            data_modification_timestamp: stat.data_modification_timestamp.map(instant),
            status_change_timestamp: stat.status_change_timestamp.map(instant),
        }
    }

    fn instant(time: Datetime) -> Instant {
        let seconds = i64::try_from(time.seconds).unwrap_or(i64::MAX);
        Instant { seconds, nanoseconds: time.nanoseconds }
    }

    pub(in super::super) fn metadata_hash(hash: p2::MetadataHashValue) -> p3::MetadataHashValue {
        p3::MetadataHashValue { lower: hash.lower, upper: hash.upper }
    }

    pub(in super::super) fn directory_entry(entry: p2::DirectoryEntry) -> p3::DirectoryEntry {
        p3::DirectoryEntry { type_: descriptor_type(entry.type_), name: entry.name }
    }

    pub(in super::super) fn error_code(code: p2::ErrorCode) -> p3::ErrorCode {
        match code {
            p2::ErrorCode::Access => p3::ErrorCode::Access,
            // WASI 0.3 has no operation that would have to be tried again.
            p2::ErrorCode::WouldBlock | p2::ErrorCode::Io => p3::ErrorCode::Io,
            p2::ErrorCode::Already => p3::ErrorCode::Already,
            p2::ErrorCode::BadDescriptor => p3::ErrorCode::BadDescriptor,
            p2::ErrorCode::Busy => p3::ErrorCode::Busy,
            p2::ErrorCode::Deadlock => p3::ErrorCode::Deadlock,
            p2::ErrorCode::Quota => p3::ErrorCode::Quota,
            p2::ErrorCode::Exist => p3::ErrorCode::Exist,
            p2::ErrorCode::FileTooLarge => p3::ErrorCode::FileTooLarge,
            p2::ErrorCode::IllegalByteSequence => p3::ErrorCode::IllegalByteSequence,
            p2::ErrorCode::InProgress => p3::ErrorCode::InProgress,
            p2::ErrorCode::Interrupted => p3::ErrorCode::Interrupted,
            p2::ErrorCode::Invalid => p3::ErrorCode::Invalid,
            p2::ErrorCode::IsDirectory => p3::ErrorCode::IsDirectory,
            p2::ErrorCode::Loop => p3::ErrorCode::Loop,
            p2::ErrorCode::TooManyLinks => p3::ErrorCode::TooManyLinks,
            p2::ErrorCode::MessageSize => p3::ErrorCode::MessageSize,
            p2::ErrorCode::NameTooLong => p3::ErrorCode::NameTooLong,
            p2::ErrorCode::NoDevice => p3::ErrorCode::NoDevice,
            p2::ErrorCode::NoEntry => p3::ErrorCode::NoEntry,
            p2::ErrorCode::NoLock => p3::ErrorCode::NoLock,
            p2::ErrorCode::InsufficientMemory => p3::ErrorCode::InsufficientMemory,
            p2::ErrorCode::InsufficientSpace => p3::ErrorCode::InsufficientSpace,
            p2::ErrorCode::NotDirectory => p3::ErrorCode::NotDirectory,
            p2::ErrorCode::NotEmpty => p3::ErrorCode::NotEmpty,
            p2::ErrorCode::NotRecoverable => p3::ErrorCode::NotRecoverable,
            p2::ErrorCode::Unsupported => p3::ErrorCode::Unsupported,
            p2::ErrorCode::NoTty => p3::ErrorCode::NoTty,
            p2::ErrorCode::NoSuchDevice => p3::ErrorCode::NoSuchDevice,
            p2::ErrorCode::Overflow => p3::ErrorCode::Overflow,
            p2::ErrorCode::NotPermitted => p3::ErrorCode::NotPermitted,
            p2::ErrorCode::Pipe => p3::ErrorCode::Pipe,
            p2::ErrorCode::ReadOnly => p3::ErrorCode::ReadOnly,
            p2::ErrorCode::InvalidSeek => p3::ErrorCode::InvalidSeek,
            p2::ErrorCode::TextFileBusy => p3::ErrorCode::TextFileBusy,
            p2::ErrorCode::CrossDevice => p3::ErrorCode::CrossDevice,
        }
    }
}

const DESCRIPTOR_FLAGS: [(p2::DescriptorFlags, p3::DescriptorFlags); 6] = [
    (p2::DescriptorFlags::READ, p3::DescriptorFlags::READ),
    (p2::DescriptorFlags::WRITE, p3::DescriptorFlags::WRITE),
    (p2::DescriptorFlags::FILE_INTEGRITY_SYNC, p3::DescriptorFlags::FILE_INTEGRITY_SYNC),
    (p2::DescriptorFlags::DATA_INTEGRITY_SYNC, p3::DescriptorFlags::DATA_INTEGRITY_SYNC),
    (p2::DescriptorFlags::REQUESTED_WRITE_SYNC, p3::DescriptorFlags::REQUESTED_WRITE_SYNC),
    (p2::DescriptorFlags::MUTATE_DIRECTORY, p3::DescriptorFlags::MUTATE_DIRECTORY),
];
