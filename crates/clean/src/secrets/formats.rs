//! Credentials that are known by their shape: who issues them, what they begin with, what follows.
//!
//! A table: one line for each format, after its issuer's own documentation.

use super::super::class::Class::{
    self, Alnum, AnyHex, Base32, Base64, Digit, Dotted, Hex, Letter, Lower, Padded, Slug, Upper, Word,
};

/// One format.
#[derive(Debug)]
pub(crate) struct Format {
    /// What findings call it.
    pub(crate) rule: &'static str,
    /// What stands before the prefix and belongs to it: of which class, how much at least and at most.
    pub(crate) before: Option<(Class, usize, usize)>,
    /// What it is found by; exactly so.
    pub(crate) prefix: &'static str,
    /// What follows.
    pub(crate) parts: &'static [Part],
    /// What else has to hold.
    pub(crate) proof: Proof,
}

/// A part of a credential.
#[derive(Debug)]
pub(crate) enum Part {
    /// So many of a class, as many as there are.
    Take(Class, usize, usize),
    /// This very text.
    Is(&'static str),
}

/// What tells a credential from something of its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// It is as mixed as something random.
    Random,
    /// The last six characters are the checksum of those before, in base 62.
    Crc62,
    /// The last eight are the checksum of all before, in hexadecimal.
    CrcHex,
    /// Header and body are JSON that names an algorithm.
    Jwt,
}

use Part::{Is, Take};
const ANY: usize = usize::MAX;

const fn token(rule: &'static str, prefix: &'static str, parts: &'static [Part]) -> Format {
    Format { rule, before: None, prefix, parts, proof: Proof::Random }
}

const fn checked(rule: &'static str, prefix: &'static str, parts: &'static [Part], proof: Proof) -> Format {
    Format { rule, before: None, prefix, parts, proof }
}

const fn around(
    rule: &'static str,
    before: (Class, usize, usize),
    prefix: &'static str,
    parts: &'static [Part],
) -> Format {
    Format { rule, before: Some(before), prefix, parts, proof: Proof::Random }
}

const UUID: &[Part] = &[
    Take(Hex, 8, 8),
    Is("-"),
    Take(Hex, 4, 4),
    Is("-"),
    Take(Hex, 4, 4),
    Is("-"),
    Take(Hex, 4, 4),
    Is("-"),
    Take(Hex, 12, 12),
];

pub(crate) const FORMATS: &[Format] = &[
    // ---- code hosts
    checked("github-token", "ghp_", &[Take(Alnum, 36, 36)], Proof::Crc62),
    checked("github-token", "gho_", &[Take(Alnum, 36, 36)], Proof::Crc62),
    checked("github-token", "ghu_", &[Take(Alnum, 36, 36)], Proof::Crc62),
    checked("github-token", "ghs_", &[Take(Alnum, 36, 36)], Proof::Crc62),
    checked("github-token", "ghr_", &[Take(Alnum, 36, 76)], Proof::Crc62),
    token("github-fine-grained-token", "github_pat_", &[Take(Alnum, 22, 22), Is("_"), Take(Alnum, 59, 59)]),
    token("gitlab-token", "glpat-", &[Take(Dotted, 20, 320)]),
    token("gitlab-deploy-token", "gldt-", &[Take(Slug, 20, 64)]),
    token("gitlab-runner-token", "glrt-", &[Take(Dotted, 20, 320)]),
    token("gitlab-runner-token", "GR1348941", &[Take(Slug, 20, 20)]),
    token("gitlab-trigger-token", "glptt-", &[Take(Hex, 40, 40)]),
    token("gitlab-job-token", "glcbt-", &[Take(Slug, 20, 80)]),
    token("gitlab-feed-token", "glft-", &[Take(Slug, 20, 80)]),
    token("gitlab-mail-token", "glimt-", &[Take(Slug, 25, 80)]),
    token("gitlab-agent-token", "glagent-", &[Take(Slug, 50, 80)]),
    token("gitlab-oauth-secret", "gloas-", &[Take(Slug, 64, 64)]),
    token("gitlab-scim-token", "glsoat-", &[Take(Slug, 20, 80)]),
    token("bitbucket-app-password", "ATBB", &[Take(Alnum, 32, 36)]),
    token("atlassian-token", "ATATT3", &[Take(Slug, 150, 400)]),
    token("atlassian-token", "ATCTT3", &[Take(Slug, 150, 400)]),
    token("sourcegraph-token", "sgp_", &[Take(Word, 40, 100)]),
    token("circleci-token", "CCIPAT_", &[Take(Alnum, 22, 22), Is("_"), Take(Hex, 40, 40)]),
    token("buildkite-token", "bkua_", &[Take(Hex, 40, 40)]),
    around("azure-devops-token", (Alnum, 76, 76), "AZDO", &[Take(Alnum, 4, 4)]),
    // ---- clouds
    token("aws-access-key", "AKIA", &[Take(Base32, 16, 16)]),
    token("aws-access-key", "ASIA", &[Take(Base32, 16, 16)]),
    token("aws-access-key", "ABIA", &[Take(Base32, 16, 16)]),
    token("aws-access-key", "ACCA", &[Take(Base32, 16, 16)]),
    token("aws-session-token", "IQoJb3JpZ2lu", &[Take(Padded, 100, ANY)]),
    token("aws-session-token", "FwoGZXIvYXdz", &[Take(Padded, 100, ANY)]),
    token("aws-bedrock-key", "ABSK", &[Take(Padded, 109, 300)]),
    token("aws-marketplace-key", "amzn.mws.", UUID),
    token("google-api-key", "AIza", &[Take(Slug, 35, 35)]),
    token("google-client-secret", "GOCSPX-", &[Take(Slug, 28, 28)]),
    token("google-access-token", "ya29.", &[Take(Slug, 30, ANY)]),
    token("google-refresh-token", "1//0", &[Take(Slug, 60, 120)]),
    around("azure-client-secret", (Alnum, 4, 4), "Q~", &[Take(Dotted, 31, 37)]),
    around("azure-storage-key", (Base64, 76, 76), "+ASt", &[Take(Alnum, 6, 6), Is("==")]),
    around("azure-functions-key", (Slug, 44, 44), "AzFu", &[Take(Alnum, 6, 6), Is("==")]),
    around("azure-search-key", (Alnum, 42, 42), "AzSe", &[Take(Alnum, 6, 6)]),
    around("azure-cosmos-key", (Base64, 76, 76), "ACDb", &[Take(Alnum, 6, 6), Is("==")]),
    around("azure-registry-key", (Base64, 42, 42), "+ACR", &[Take(Alnum, 6, 6)]),
    around("azure-relay-key", (Base64, 33, 33), "+ASb", &[Take(Alnum, 6, 6), Is("=")]),
    around("azure-event-hub-key", (Base64, 33, 33), "+AEh", &[Take(Alnum, 6, 6), Is("=")]),
    token("alibaba-access-key", "LTAI", &[Take(Alnum, 16, 24)]),
    token("tencent-secret-id", "AKID", &[Take(Alnum, 32, 32)]),
    token("yandex-api-key", "AQVN", &[Take(Slug, 35, 38)]),
    token("yandex-token", "y0_", &[Take(Slug, 50, 70)]),
    token("digitalocean-token", "dop_v1_", &[Take(Hex, 64, 64)]),
    token("digitalocean-token", "doo_v1_", &[Take(Hex, 64, 64)]),
    token("digitalocean-token", "dor_v1_", &[Take(Hex, 64, 64)]),
    token("heroku-token", "HRKU-AA", &[Take(Slug, 58, 60)]),
    token("fly-token", "fo1_", &[Take(Slug, 43, 43)]),
    token("fly-token", "fm2_", &[Take(Padded, 100, ANY)]),
    token("scaleway-access-key", "SCW", &[Take(Upper, 17, 17)]),
    token("cloudflare-origin-key", "v1.0-", &[Take(Hex, 24, 24), Is("-"), Take(Hex, 146, 146)]),
    token("netlify-token", "nfp_", &[Take(Alnum, 36, 40)]),
    token("render-key", "rnd_", &[Take(Alnum, 28, 40)]),
    token("supabase-token", "sbp_", &[Take(Hex, 40, 40)]),
    token("supabase-secret", "sb_secret_", &[Take(Slug, 30, 50)]),
    token("planetscale-token", "pscale_tkn_", &[Take(Dotted, 32, 64)]),
    token("planetscale-token", "pscale_oauth_", &[Take(Dotted, 32, 64)]),
    token("planetscale-password", "pscale_pw_", &[Take(Dotted, 32, 64)]),
    token("neon-key", "napi_", &[Take(Lower, 60, 70)]),
    token("databricks-token", "dapi", &[Take(Hex, 32, 32)]),
    token("databricks-token", "dapi", &[Take(Hex, 32, 32), Is("-"), Take(Digit, 1, 1)]),
    token("cloudinary-url", "cloudinary://", &[Take(Digit, 10, 20), Is(":"), Take(Slug, 20, 40)]),
    token("oracle-fingerprint-key", "ocid1.credential.", &[Take(Dotted, 40, 120)]),
    // ---- secret keepers
    token("vault-token", "hvs.", &[Take(Slug, 24, ANY)]),
    token("vault-token", "hvb.", &[Take(Slug, 100, ANY)]),
    token("vault-token", "hvr.", &[Take(Slug, 24, ANY)]),
    around("terraform-token", (Alnum, 14, 14), ".atlasv1.", &[Take(Slug, 60, 70)]),
    token("doppler-token", "dp.pt.", &[Take(Alnum, 40, 44)]),
    token("doppler-token", "dp.st.", &[Take(Dotted, 40, 80)]),
    token("doppler-token", "dp.ct.", &[Take(Alnum, 40, 44)]),
    token("doppler-token", "dp.sa.", &[Take(Alnum, 40, 44)]),
    token("one-password-token", "ops_eyJ", &[Take(Padded, 200, ANY)]),
    token(
        "one-password-secret-key",
        "A3-",
        &[
            Take(Upper, 6, 6),
            Is("-"),
            Take(Upper, 6, 11),
            Is("-"),
            Take(Upper, 5, 6),
            Is("-"),
            Take(Upper, 5, 5),
            Is("-"),
            Take(Upper, 5, 5),
            Is("-"),
            Take(Upper, 5, 5),
        ],
    ),
    token("pulumi-token", "pul-", &[Take(Hex, 40, 40)]),
    token("age-secret-key", "AGE-SECRET-KEY-1", &[Take(Upper, 58, 58)]),
    token("infracost-key", "ico-", &[Take(Alnum, 32, 32)]),
    // ---- models
    around("openai-key", (Slug, 20, 160), "T3BlbkFJ", &[Take(Slug, 20, 160)]),
    token("openai-key", "sk-proj-", &[Take(Slug, 40, 300)]),
    token("openai-key", "sk-svcacct-", &[Take(Slug, 40, 300)]),
    token("openai-key", "sk-admin-", &[Take(Slug, 40, 300)]),
    token("deepseek-key", "sk-", &[Take(Hex, 32, 32)]),
    token("anthropic-key", "sk-ant-", &[Take(Slug, 60, 300)]),
    token("openrouter-key", "sk-or-v1-", &[Take(Hex, 64, 64)]),
    token("hugging-face-token", "hf_", &[Take(Letter, 34, 34)]),
    token("hugging-face-token", "api_org_", &[Take(Letter, 34, 34)]),
    token("replicate-token", "r8_", &[Take(Alnum, 37, 37)]),
    token("groq-key", "gsk_", &[Take(Alnum, 52, 52)]),
    token("perplexity-key", "pplx-", &[Take(Alnum, 48, 48)]),
    token("xai-key", "xai-", &[Take(Alnum, 80, 80)]),
    token("fireworks-key", "fw_", &[Take(Alnum, 24, 24)]),
    token("together-key", "tgp_v1_", &[Take(Slug, 43, 43)]),
    token("elevenlabs-key", "sk_", &[Take(Hex, 48, 48)]),
    token("langsmith-key", "lsv2_pt_", &[Take(Hex, 32, 32), Is("_"), Take(Hex, 10, 10)]),
    token("langsmith-key", "lsv2_sk_", &[Take(Hex, 32, 32), Is("_"), Take(Hex, 10, 10)]),
    token("pinecone-key", "pcsk_", &[Take(Word, 60, 80)]),
    token("tavily-key", "tvly-", &[Take(Slug, 32, 60)]),
    token("nvidia-key", "nvapi-", &[Take(Slug, 60, 70)]),
    token("cerebras-key", "csk-", &[Take(Lower, 48, 48)]),
    token("jina-key", "jina_", &[Take(Slug, 50, 70)]),
    token("wandb-key", "wandb_v1_", &[Take(Word, 60, 100)]),
    // ---- package registries
    checked("npm-token", "npm_", &[Take(Alnum, 36, 36)], Proof::Crc62),
    token("pypi-token", "pypi-AgEIcHlwaS5vcmc", &[Take(Slug, 50, ANY)]),
    token("pypi-token", "pypi-AgENdGVzdC5weXBpLm9yZw", &[Take(Slug, 50, ANY)]),
    token("rubygems-key", "rubygems_", &[Take(Hex, 48, 48)]),
    token("crates-io-token", "cio", &[Take(Alnum, 32, 32)]),
    token("nuget-key", "oy2", &[Take(Lower, 43, 43)]),
    token("docker-hub-token", "dckr_pat_", &[Take(Slug, 27, 27)]),
    token("docker-hub-token", "dckr_oat_", &[Take(Slug, 32, 32)]),
    token("artifactory-key", "AKCp", &[Take(Alnum, 69, 69)]),
    token("artifactory-token", "cmVmdGtu", &[Take(Alnum, 56, 56)]),
    token("clojars-token", "CLOJARS_", &[Take(Hex, 60, 60)]),
    token("packagist-token", "packagist_ort_", &[Take(Hex, 60, 80)]),
    token("packagist-token", "packagist_uut_", &[Take(Hex, 60, 80)]),
    // ---- chat
    token("slack-bot-token", "xoxb-", &[Take(Digit, 9, 14), Is("-"), Take(Slug, 20, 60)]),
    token("slack-user-token", "xoxp-", &[Take(Digit, 9, 14), Is("-"), Take(Slug, 40, 90)]),
    token("slack-token", "xoxa-", &[Take(Slug, 30, 90)]),
    token("slack-token", "xoxr-", &[Take(Slug, 30, 90)]),
    token("slack-token", "xoxs-", &[Take(Slug, 30, 90)]),
    token("slack-token", "xoxc-", &[Take(Slug, 30, 120)]),
    token("slack-cookie", "xoxd-", &[Take(Class::Opaque, 60, 300)]),
    token("slack-config-token", "xoxe.xoxp-", &[Take(Digit, 1, 1), Is("-"), Take(Slug, 140, 200)]),
    token("slack-refresh-token", "xoxe-", &[Take(Digit, 1, 1), Is("-"), Take(Slug, 140, 200)]),
    token(
        "slack-app-token",
        "xapp-",
        &[
            Take(Digit, 1, 1),
            Is("-"),
            Take(Upper, 9, 12),
            Is("-"),
            Take(Digit, 9, 14),
            Is("-"),
            Take(Hex, 60, 70),
        ],
    ),
    token(
        "slack-webhook",
        "hooks.slack.com/services/",
        &[Take(Upper, 8, 14), Is("/"), Take(Upper, 8, 14), Is("/"), Take(Alnum, 20, 30)],
    ),
    token(
        "slack-webhook",
        "hooks.slack.com/workflows/",
        &[
            Take(Upper, 8, 14),
            Is("/"),
            Take(Upper, 8, 14),
            Is("/"),
            Take(Digit, 15, 22),
            Is("/"),
            Take(Alnum, 20, 30),
        ],
    ),
    token(
        "discord-webhook",
        "discord.com/api/webhooks/",
        &[Take(Digit, 17, 20), Is("/"), Take(Slug, 60, 70)],
    ),
    token(
        "discord-webhook",
        "discordapp.com/api/webhooks/",
        &[Take(Digit, 17, 20), Is("/"), Take(Slug, 60, 70)],
    ),
    around("telegram-bot-token", (Digit, 8, 10), ":AA", &[Take(Slug, 33, 33)]),
    token(
        "teams-webhook",
        "webhook.office.com/webhookb2/",
        &[Take(Hex, 8, 8), Is("-"), Take(Class::Address, 80, 300)],
    ),
    token("twilio-key", "SK", &[Take(Hex, 32, 32)]),
    // ---- payment and shops
    token("stripe-secret-key", "sk_live_", &[Take(Alnum, 20, 247)]),
    token("stripe-secret-key", "sk_test_", &[Take(Alnum, 20, 247)]),
    token("stripe-restricted-key", "rk_live_", &[Take(Alnum, 20, 247)]),
    token("stripe-restricted-key", "rk_test_", &[Take(Alnum, 20, 247)]),
    token("stripe-webhook-secret", "whsec_", &[Take(Padded, 32, 64)]),
    token("square-token", "sq0atp-", &[Take(Slug, 22, 22)]),
    token("square-secret", "sq0csp-", &[Take(Slug, 43, 43)]),
    token("square-token", "EAAA", &[Take(Slug, 60, 60)]),
    token("braintree-token", "access_token$production$", &[Take(Lower, 16, 16), Is("$"), Take(Hex, 32, 32)]),
    token("shopify-token", "shpat_", &[Take(AnyHex, 32, 32)]),
    token("shopify-token", "shpca_", &[Take(AnyHex, 32, 32)]),
    token("shopify-token", "shppa_", &[Take(AnyHex, 32, 32)]),
    token("shopify-secret", "shpss_", &[Take(AnyHex, 32, 32)]),
    token("flutterwave-key", "FLWSECK-", &[Take(AnyHex, 32, 32), Is("-X")]),
    token("razorpay-key", "rzp_live_", &[Take(Alnum, 14, 14)]),
    token("plaid-token", "access-production-", UUID),
    token("plaid-token", "access-sandbox-", UUID),
    token("easypost-key", "EZAK", &[Take(Alnum, 54, 54)]),
    token("shippo-key", "shippo_live_", &[Take(Hex, 40, 40)]),
    token("duffel-token", "duffel_live_", &[Take(Slug, 43, 43)]),
    token("facebook-token", "EAACEdEose0cBA", &[Take(Alnum, 20, ANY)]),
    token("facebook-token", "EAAM", &[Take(Alnum, 100, ANY)]),
    token("twitter-bearer-token", "AAAAAAAAAAAAAAAAAAAAA", &[Take(Class::Opaque, 80, 120)]),
    // ---- mail, monitoring, the rest
    token("sendgrid-key", "SG.", &[Take(Slug, 22, 22), Is("."), Take(Slug, 43, 43)]),
    token("mailgun-key", "key-", &[Take(Hex, 32, 32)]),
    around("mailchimp-key", (Hex, 32, 32), "-us", &[Take(Digit, 1, 2)]),
    token("brevo-key", "xkeysib-", &[Take(Hex, 64, 64), Is("-"), Take(Alnum, 16, 16)]),
    token("resend-key", "re_", &[Take(Alnum, 8, 8), Is("_"), Take(Alnum, 24, 24)]),
    checked("grafana-token", "glsa_", &[Take(Alnum, 32, 32), Is("_"), Take(Hex, 8, 8)], Proof::CrcHex),
    token("grafana-cloud-token", "glc_eyJ", &[Take(Padded, 60, 400)]),
    token("sentry-token", "sntrys_eyJ", &[Take(Padded, 80, 400)]),
    token("sentry-token", "sntryu_", &[Take(Hex, 64, 64)]),
    token("new-relic-key", "NRAK-", &[Take(Upper, 27, 27)]),
    token("new-relic-key", "NRII-", &[Take(Slug, 32, 32)]),
    token("dynatrace-token", "dt0c01.", &[Take(Base32, 24, 24), Is("."), Take(Base32, 64, 64)]),
    token("honeycomb-key", "hcaik_", &[Take(Lower, 58, 64)]),
    token("posthog-key", "phx_", &[Take(Alnum, 43, 50)]),
    token("mapbox-secret", "sk.eyJ", &[Take(Slug, 60, 120), Is("."), Take(Slug, 22, 22)]),
    token("postman-key", "PMAK-", &[Take(Hex, 24, 24), Is("-"), Take(Hex, 34, 34)]),
    token("linear-key", "lin_api_", &[Take(Alnum, 40, 40)]),
    token("notion-token", "ntn_", &[Take(Alnum, 46, 46)]),
    token("notion-token", "secret_", &[Take(Alnum, 43, 43)]),
    token("airtable-token", "pat", &[Take(Alnum, 14, 14), Is("."), Take(Hex, 64, 64)]),
    token("asana-token", "1/", &[Take(Digit, 16, 17), Is(":"), Take(Hex, 32, 32)]),
    token("figma-token", "figd_", &[Take(Slug, 40, 46)]),
    token("typeform-token", "tfp_", &[Take(Slug, 44, 60)]),
    token("contentful-token", "CFPAT-", &[Take(Slug, 43, 43)]),
    token("hubspot-token", "pat-na1-", UUID),
    token("hubspot-token", "pat-eu1-", UUID),
    token("prefect-key", "pnu_", &[Take(Alnum, 36, 36)]),
    token("readme-key", "rdme_", &[Take(Lower, 70, 80)]),
    token("frame-io-token", "fio-u-", &[Take(Slug, 64, 64)]),
    token("dropbox-token", "sl.", &[Take(Slug, 130, ANY)]),
    token("sonar-token", "squ_", &[Take(Hex, 40, 40)]),
    token("sonar-token", "sqp_", &[Take(Hex, 40, 40)]),
    token("sonar-token", "sqa_", &[Take(Hex, 40, 40)]),
    token("tailscale-key", "tskey-auth-", &[Take(Slug, 20, 80)]),
    token("tailscale-key", "tskey-api-", &[Take(Slug, 20, 80)]),
    token("launchdarkly-key", "sdk-", UUID),
    around("firebase-push-key", (Slug, 11, 30), ":APA91b", &[Take(Slug, 120, 160)]),
    token("bitcoin-private-key", "xprv", &[Take(Alnum, 107, 107)]),
    token("wakatime-key", "waka_", UUID),
    token("ubidots-token", "BBFF-", &[Take(Alnum, 30, 40)]),
    checked(
        "jwt",
        "eyJ",
        &[Take(Slug, 12, ANY), Is("."), Take(Slug, 2, ANY), Is("."), Take(Dotted, 0, ANY)],
        Proof::Jwt,
    ),
];
