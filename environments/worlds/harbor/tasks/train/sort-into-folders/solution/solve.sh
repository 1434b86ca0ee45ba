#!/bin/bash
set -e
mkdir pictures tables
mv *.png pictures/
mv *.csv tables/
