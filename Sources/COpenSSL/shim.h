#ifndef ONYM_COPENSSL_SHIM_H
#define ONYM_COPENSSL_SHIM_H

#include <openssl/cms.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/ecdsa.h>
#include <openssl/pem.h>

// OpenSSL has these as macros.

static inline int onym_ssl_ctx_set_min_version(SSL_CTX *context, int version) {
    return (int)SSL_CTX_set_min_proto_version(context, version);
}

static inline void onym_ssl_ctx_set_mode(SSL_CTX *context, long mode) {
    SSL_CTX_set_mode(context, mode);
}

// Parameters point at their names and values, which have to stay where they are until they are used.
static inline EVP_MAC_CTX *onym_hmac_sha256_new(EVP_MAC *hmac, const unsigned char *key, size_t count) {
    char digest[] = "SHA256";
    OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string("digest", digest, 0), OSSL_PARAM_construct_end()};
    EVP_MAC_CTX *context = EVP_MAC_CTX_new(hmac);
    if (context != NULL && EVP_MAC_init(context, key, count, parameters) != 1) {
        EVP_MAC_CTX_free(context);
        return NULL;
    }
    return context;
}

// Verifies a signature over a message by a key, in the form that the key's kind has.
static inline int onym_verify(EVP_PKEY *key, const EVP_MD *digest, const unsigned char *signature, size_t length,
                              const unsigned char *message, size_t count) {
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int good = context != NULL && EVP_DigestVerifyInit(context, NULL, digest, NULL, key) == 1
        && EVP_DigestVerify(context, signature, length, message, count) == 1;
    EVP_MD_CTX_free(context);
    // What was no signature is no error of ours.
    ERR_clear_error();
    return good;
}

static inline int onym_ed25519_verify(const unsigned char *public_key, const unsigned char *signature,
                                      const unsigned char *message, size_t count) {
    EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public_key, 32);
    int good = key != NULL && onym_verify(key, NULL, signature, 64, message, count);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return good;
}

// The beginning of every signature by a key. OpenSSL searches for the algorithm by name here, so this is done once.
static inline EVP_MD_CTX *onym_ed25519_signer_new(EVP_PKEY *key) {
    EVP_MD_CTX *signer = EVP_MD_CTX_new();
    if (signer != NULL && EVP_DigestSignInit(signer, NULL, NULL, NULL, key) != 1) {
        EVP_MD_CTX_free(signer);
        return NULL;
    }
    return signer;
}

static inline int onym_ed25519_sign(const EVP_MD_CTX *signer, const unsigned char *message, size_t count,
                                    unsigned char *signature) {
    size_t length = 64;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int made = context != NULL && EVP_MD_CTX_copy_ex(context, signer) == 1
        && EVP_DigestSign(context, signature, &length, message, count) == 1 && length == 64;
    EVP_MD_CTX_free(context);
    return made;
}

// Seals bytes with AES-256-GCM: the sealed bytes have the length of the plain ones, and the tag has 16 bytes.
static inline int onym_seal(const unsigned char *key, const unsigned char *nonce, const unsigned char *context,
                            size_t context_count, const unsigned char *plain, size_t count, unsigned char *sealed,
                            unsigned char *tag) {
    int made = 0, length = 0;
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    made = cipher != NULL && EVP_EncryptInit_ex(cipher, EVP_aes_256_gcm(), NULL, key, nonce) == 1
        && EVP_EncryptUpdate(cipher, NULL, &length, context, (int)context_count) == 1
        && EVP_EncryptUpdate(cipher, sealed, &length, plain, (int)count) == 1
        && EVP_EncryptFinal_ex(cipher, sealed + length, &length) == 1
        && EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_GET_TAG, 16, tag) == 1;
    EVP_CIPHER_CTX_free(cipher);
    return made;
}

static inline int onym_unseal(const unsigned char *key, const unsigned char *nonce, const unsigned char *context,
                              size_t context_count, const unsigned char *sealed, size_t count, unsigned char *plain,
                              const unsigned char *tag) {
    int made = 0, length = 0;
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    made = cipher != NULL && EVP_DecryptInit_ex(cipher, EVP_aes_256_gcm(), NULL, key, nonce) == 1
        && EVP_DecryptUpdate(cipher, NULL, &length, context, (int)context_count) == 1
        && EVP_DecryptUpdate(cipher, plain, &length, sealed, (int)count) == 1
        && EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_SET_TAG, 16, (void *)tag) == 1
        && EVP_DecryptFinal_ex(cipher, plain + length, &length) == 1;
    EVP_CIPHER_CTX_free(cipher);
    return made;
}

// Makes a key of a point, uncompressed: 4, x, y. A point that is not on the curve is no key.
static inline EVP_PKEY *onym_p256_key(const unsigned char *point) {
    char group[] = "prime256v1";
    OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
                               OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, (void *)point, 65),
                               OSSL_PARAM_construct_end()};
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    EVP_PKEY *key = NULL;
    if (context == NULL || EVP_PKEY_fromdata_init(context) != 1
        || EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, parameters) != 1) {
        key = NULL;
    }
    EVP_PKEY_CTX_free(context);
    ERR_clear_error();
    return key;
}

static inline int onym_p256_is_key(const unsigned char *point) {
    EVP_PKEY *key = onym_p256_key(point);
    EVP_PKEY_free(key);
    return key != NULL;
}

static inline int onym_p256_verify(const unsigned char *point, const unsigned char *signature,
                                   const unsigned char *message, size_t count) {
    EVP_PKEY *key = onym_p256_key(point);
    int good = key != NULL;
    // JOSE has the two numbers one after the other, OpenSSL in DER.
    ECDSA_SIG *numbers = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(signature, 32, NULL), *s = BN_bin2bn(signature + 32, 32, NULL);
    good = good && numbers != NULL && r != NULL && s != NULL && ECDSA_SIG_set0(numbers, r, s) == 1;
    if (good) {
        unsigned char *der = NULL;
        int length = i2d_ECDSA_SIG(numbers, &der);
        good = length > 0 && onym_verify(key, EVP_sha256(), der, (size_t)length, message, count);
        OPENSSL_free(der);
    } else {
        BN_free(r);
        BN_free(s);
    }
    ECDSA_SIG_free(numbers);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return good;
}

// Makes an RSA key of its modulus and its exponent, each with the highest byte first; NULL for numbers that are no key.
static inline EVP_PKEY *onym_rsa_key(const unsigned char *modulus, size_t modulus_count, const unsigned char *exponent,
                                     size_t exponent_count) {
    BIGNUM *n = BN_bin2bn(modulus, (int)modulus_count, NULL);
    BIGNUM *e = BN_bin2bn(exponent, (int)exponent_count, NULL);
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    OSSL_PARAM *parameters = NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
    EVP_PKEY *key = NULL;
    if (n != NULL && e != NULL && builder != NULL && context != NULL
        && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n) == 1
        && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e) == 1
        && (parameters = OSSL_PARAM_BLD_to_param(builder)) != NULL && EVP_PKEY_fromdata_init(context) == 1
        && EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, parameters) != 1) {
        key = NULL;
    }
    EVP_PKEY_CTX_free(context);
    OSSL_PARAM_free(parameters);
    OSSL_PARAM_BLD_free(builder);
    BN_free(e);
    BN_free(n);
    ERR_clear_error();
    return key;
}

static inline int onym_rsa_sha256_verify(EVP_PKEY *key, const unsigned char *signature, size_t length,
                                         const unsigned char *message, size_t count) {
    return onym_verify(key, EVP_sha256(), signature, length, message, count);
}

#endif
