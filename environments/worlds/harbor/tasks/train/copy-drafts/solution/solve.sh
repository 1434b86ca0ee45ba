#!/bin/bash
set -e
mkdir drafts
cp inbox/draft-* drafts/
