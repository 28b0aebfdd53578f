// SPDX-License-Identifier: Apache-2.0
// auth_vectors.h: credentials made by others. HASH_7, HASH_6: Python's hashlib, password "secret", salt "0123456789ab".
// SCRAM_7677: the verifier of RFC 7677 section 3 (user "user", password "pencil"). MOSQUITTO_7: mosquitto_passwd of
// Mosquitto 2.0.11, password "correct horse". Tokens and keys: OpenSSL 3.0; both tokens hold
// {"sub": "dev-1", "iss": "me", "aud": ["x", "sluice"], "exp": 2000000000, "iat": 1700000000
// , "publish": ["up/%c/#"], "subscribe": ["down/%u"]}
#ifndef SLUICE_TESTS_AUTH_VECTORS_H
#define SLUICE_TESTS_AUTH_VECTORS_H

#define HASH_7 \
    "EO/lLlkeUgIiBaS8G8UK0ZMP1u508TA7Tl+AdJ1cEsmlbGyEPAERErpfq84j1kepISs0UzmcdL4ucgZ2uodxfQ=="
#define HASH_6 \
    "qEXipeLbgxRlwd06QHfY5WITkUZg0jLg9SZbXzq3ifXjfj+v3GbJGrSfC5PAg3UNCS+UFfbhUIZX4bmIAs330w=="
#define SCRAM_7677 \
    "user:SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$" \
    "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=\n"
#define MOSQUITTO_7 \
    "carol:$7$101$0a4JGnrHKJWO7XfH$FLEv+HGfLDcXplVjh1lnCZdgGirYdetGOmA9xJ3oXFLlTYCCIPWZy4eepo05JDNz3y" \
    "vxA6ln6n0HpcEfGWL9kw==\n"

#define EC_PUBLIC_PEM \
    "-----BEGIN PUBLIC KEY-----\n" \
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEtHyMoJ1Nxkd5Je6ulZ2stJzZpxyx\n" \
    "TGhF29rDfL3DPfaq4rd5wjSOh6IsqB6g91mydCYXr/hdoZGJu52pYhLJ9A==\n" \
    "-----END PUBLIC KEY-----\n"
#define RSA_PUBLIC_PEM \
    "-----BEGIN PUBLIC KEY-----\n" \
    "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAwR8B0P7AW5S1mVk5W7jg\n" \
    "zOBeGkY8qaDNt+YaqGgl5ZSwXmOlpy/y7rF0MGvrtqe0GAfTceNWPXrrnuiWyAyT\n" \
    "3qR0+LkTIyC1oqs3jqT2Hp1PnVBYkBoBul9IRuxulmE4tJtqWyTQtlaBKo49TZkS\n" \
    "qKzigpWeBufLA5d1XCn+2uCNsgmj+NMuBPHCqsN0FBUbdv5Q1K17tEVXFHOPGgUU\n" \
    "YLkWHI8jKPrVvJXvUfX+lBlC0pWygHdE3/6PCZkddFY8i0S2BwrmfOPYZ7uwoJdW\n" \
    "JIvKQFTyJcnFRl30RsS/DtSPfdU2GXrkUfb1g5AXmhlVyZUjDj1NmedGXI5m6GIb\n" \
    "sQIDAQAB\n" \
    "-----END PUBLIC KEY-----\n"
#define ES256_TOKEN \
    "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCJ9.eyJzdWIiOiAiZGV2LTEiLCAiaXNzIjogIm1lIiwgImF1ZCI6IFsieCI" \
    "sICJzbHVpY2UiXSwgImV4cCI6IDIwMDAwMDAwMDAsICJpYXQiOiAxNzAwMDAwMDAwLCAicHVibGlzaCI6IFsidXAvJWMvIyJ" \
    "dLCAic3Vic2NyaWJlIjogWyJkb3duLyV1Il19.FSRl5-ycxcauvF3z8lwnZEqbLbMLNB5mm8SEVsB4YcaJMSmzRJpk7xl-68" \
    "2c5_9G8k038IRr-CIkTJQ2X5bbBQ"
#define RS256_TOKEN \
    "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCJ9.eyJzdWIiOiAiZGV2LTEiLCAiaXNzIjogIm1lIiwgImF1ZCI6IFsieCI" \
    "sICJzbHVpY2UiXSwgImV4cCI6IDIwMDAwMDAwMDAsICJpYXQiOiAxNzAwMDAwMDAwLCAicHVibGlzaCI6IFsidXAvJWMvIyJ" \
    "dLCAic3Vic2NyaWJlIjogWyJkb3duLyV1Il19.gYHwuaWSYgi9MIQheuMmMIDwOynzUTVgzRUW-XaIk-NbQMa9ntgeIAdyCz" \
    "JNxCeaib-KEdphf9-VeLhPG6SgdS_iPMNED6h1XpaPy24n4D_KJ8QfQGaJ-6NZ0gk9EsXbcGhVsM49xZvz2XrrCK6bD-Yxbt" \
    "bWepbQGumvYFCxa42j7G7MZ7Y2ZsSBjytxor0QLKRPysnAaggDjrFGqZ6hRzZ_fpCA47qb1ST4zr4iiCVIBiHksiqhfMU_fn" \
    "1Y-e7gTeGNPcukFNg2aczdpphCkCG2BIvsIns4G7JosrAn_G2ti0TmQo5X6GUoqhn7EAquVTi0L39RWcndOKnh0XNP7g"

#endif
