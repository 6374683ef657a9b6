-- What a flood was made of, in one digest: each refused call that is not recorded by itself goes into it.
ALTER TABLE floods ADD COLUMN digest TEXT NOT NULL DEFAULT '';
