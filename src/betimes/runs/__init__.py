"""Runs: may this account's expensive decision run now?"""
