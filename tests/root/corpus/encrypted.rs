//! Encrypted and verified disks. A cheap derivation of the key: it protects nothing here.

use super::image::made;

images! {
    luks_1: made(
        32,
        "crypto_LUKS",
        "printf secret | cryptsetup luksFormat -q --type luks1 \
         --pbkdf-force-iterations 1000 disk -",
    );
    luks_2: made(
        32,
        "crypto_LUKS",
        "printf secret | cryptsetup luksFormat -q --type luks2 --luks2-keyslots-size 256k \
         --offset 2048 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 disk -",
    );
    luks_2_header_of_another_disk: made(
        32,
        "crypto_LUKS",
        "truncate -s 32M data && printf secret | cryptsetup luksFormat -q --type luks2 \
         --luks2-keyslots-size 256k --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \
         --header disk data -",
    );
    verity: made(16, "DM_verity_hash", "truncate -s 16M data && veritysetup format data disk");
    // Without a header: nothing but noise.
    plain_dm_crypt_or_truecrypt: made(16, "", "head -c 512K /dev/urandom >out && put out");
}
